// An expression made ready to run on tiles: short runs of elements that stay in the first-level cache.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/elementwise_kernels.h"
#include "cpu/scratch.h"
#include "device/step.h"
#include "hearth/small_vector.h"

namespace hearth::cpu {

// Memory aligned for vector loads.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t bytes);
  ~AlignedBytes();
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  char* data() const { return data_; }

 private:
  char* data_;
};

// The elements of one input, in the row-major order of the domain.
class TileSource {
 public:
  TileSource(const Layout& layout);

  // True iff all elements are the same one.
  bool scalar() const { return scalar_; }
  // True iff elements [start, start + n) can be read where they are.
  bool dense() const { return dense_; }
  // The elements repeat after so many; 0 if they do not.
  std::int64_t period() const { return period_; }
  // True iff elements [k * n, (k + 1) * n) are the same one, for every k.
  bool constant_along(std::int64_t n) const { return strides_.back() == 0 && shape_.back() % n == 0; }
  const char* at(const void* base, std::int64_t start) const {
    return static_cast<const char*>(base) + start * static_cast<std::int64_t>(size_);
  }
  // The same for sources that are not dense.
  const char* element(const void* base, std::int64_t start) const;
  // True iff elements [start, start + n) lie side by side.
  bool side_by_side(std::int64_t start, std::int64_t n) const {
    return strides_.back() == 1 && start % shape_.back() + n <= shape_.back();
  }
  // Copies elements [start, start + n) to `out`.
  void gather(const void* base, std::int64_t start, std::int64_t n, void* out) const;
  std::size_t element_size() const { return size_; }

 private:
  std::size_t size_;
  Shape shape_;  // axes merged where the strides allow
  Strides strides_;
  bool dense_ = false, scalar_ = false;
  std::int64_t period_ = 0;
};

// Runs one expression. A program is shared by threads; each has a Workspace of its own.
//
// Loops over cheap f32 operations spend their time on loads and stores. So numbers are not spread over tiles
// where an operation can take them as they are, and a chain of such operations, each result used only by the
// next, runs as one. Values do not change by that: every operation rounds as it would alone.
class TileProgram {
 public:
  // `single`: inputs of which each tile sees one element only (set_single, or a scalar source).
  explicit TileProgram(const Expression& expression, const std::vector<bool>& single = {});

  class Workspace {
   public:
    Workspace(const TileProgram& program, const Number* numbers);

   private:
    friend class TileProgram;
    Scratch memory_;
    SmallVector<void*, 16> registers_;
    SmallVector<void*, 16> gathered_;  // of each input: its raw tile, wherever the register points by now
    SmallVector<bool, 16> loaded_;     // inputs that are the same for all tiles, once loaded
  };

  std::int64_t tile_length() const { return tile_length_; }

  // Gives the elements of input i for the tile to come, in memory, dense and in the input's dtype.
  void set_input(Workspace& workspace, std::size_t i, const void* elements, std::int64_t n) const;
  // ... `stride` elements apart.
  void set_strided(Workspace& workspace, std::size_t i, const void* elements, std::int64_t stride,
                   std::int64_t n) const;
  // Gives the one element of input i for all tiles, of up to n elements, until the next call.
  void set_single(Workspace& workspace, std::size_t i, const void* element, std::int64_t n) const;
  // Gives elements [start, start + n) of a source.
  void read_input(Workspace& workspace, std::size_t i, const TileSource& source, const void* base,
                  std::int64_t start, std::int64_t n) const;
  // Where output k may be written directly, if it can; call before run().
  void set_output(Workspace& workspace, std::size_t k, void* elements) const;
  void run(Workspace& workspace, std::int64_t n) const;
  // After run(): stores output k (does nothing where it has been written directly).
  void write_output(Workspace& workspace, std::size_t k, void* elements, std::int64_t n) const;
  // After run(): output k in its compute type.
  const void* output(const Workspace& workspace, std::size_t k) const {
    return workspace.registers_[outputs_[k].reg];
  }
  Compute output_type(std::size_t k) const { return compute_of(outputs_[k].dtype); }

 private:
  // What becomes one instruction, or two with the narrowing after it.
  struct Operation {
    TileFunction function;  // null: a chain, or part of one
    std::size_t result;     // values of the expression
    std::vector<std::size_t> operands;
    std::vector<bool> single;  // operands whose first element alone is read
    std::vector<int> codes;  // of a chain: operands[0] is its start, each binary link takes one of the others
  };
  struct Instruction {
    TileFunction function;  // null: a chain
    std::uint16_t out, a, b, c;
    std::uint16_t first_link, links;  // b and c unused
  };
  struct Link {
    int code;
    std::uint16_t operand;
  };
  struct Register {
    std::size_t element_size;
    bool single;  // has one element, not a tile of them
  };
  struct Input {
    DType dtype;
    std::uint16_t reg;  // what instructions read
    std::uint16_t raw;  // a tile for gathered elements; the same as reg where no conversion is needed
    TileFunction load;  // null: no conversion
  };
  struct Output {
    DType dtype;
    std::uint16_t reg;
    TileFunction store;
    bool direct;  // its register may be the memory of the output
  };
  struct Constant {
    DType dtype;
    std::uint16_t reg;
  };

  std::vector<Operation> choose_operations(const Expression& expression, const std::vector<bool>& single);
  std::uint16_t new_register(std::size_t element_size, bool single = false);
  std::size_t register_bytes(std::size_t reg) const;

  std::vector<Input> inputs_;
  std::vector<Constant> constants_;  // the immediates, then zeros
  std::vector<std::size_t> zero_constants_;
  std::vector<Instruction> instructions_;
  std::vector<Link> links_;
  std::vector<Output> outputs_;
  std::vector<Register> registers_;
  std::int64_t tile_length_ = 1024;
};

}  // namespace hearth::cpu
