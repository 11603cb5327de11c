// An expression made ready to run on tiles: short runs of elements that stay in the first-level cache.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/elementwise_kernels.h"
#include "device/step.h"

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
  const char* at(const void* base, std::int64_t start) const {
    return static_cast<const char*>(base) + start * static_cast<std::int64_t>(size_);
  }
  // Copies elements [start, start + n) to `out`.
  void gather(const void* base, std::int64_t start, std::int64_t n, void* out) const;
  std::size_t element_size() const { return size_; }

 private:
  std::size_t size_;
  Shape shape_;      // axes merged where the strides allow
  Strides strides_;
  bool dense_ = false, scalar_ = false;
};

// Runs one expression. A program is shared by threads; each has a Workspace of its own.
class TileProgram {
 public:
  explicit TileProgram(const Expression& expression);

  class Workspace {
   public:
    Workspace(const TileProgram& program, const Number* numbers);

   private:
    friend class TileProgram;
    AlignedBytes memory_;
    std::vector<void*> registers_;
    std::vector<bool> loaded_;  // inputs that are the same for all tiles, once loaded
  };

  std::int64_t tile_length() const { return tile_length_; }

  // Gives the elements of input i for the tile to come, in memory, dense and in the input's dtype.
  void set_input(Workspace& workspace, std::size_t i, const void* elements, std::int64_t n) const;
  // ... from a source.
  void read_input(Workspace& workspace, std::size_t i, const TileSource& source, const void* base, std::int64_t start,
                  std::int64_t n) const;
  // Where output k may be written directly, if it can; call before run().
  void set_output(Workspace& workspace, std::size_t k, void* elements) const;
  void run(Workspace& workspace, std::int64_t n) const;
  // After run(): stores output k (does nothing where it has been written directly).
  void write_output(Workspace& workspace, std::size_t k, void* elements, std::int64_t n) const;
  // After run(): output k in its compute type.
  const void* output(const Workspace& workspace, std::size_t k) const { return workspace.registers_[outputs_[k].reg]; }
  Compute output_type(std::size_t k) const { return compute_of(outputs_[k].dtype); }

 private:
  struct Instruction {
    TileFunction function;
    std::uint16_t out, a, b, c;
  };
  struct Input {
    DType dtype;
    std::uint16_t reg;      // what instructions read
    std::uint16_t raw;      // a tile for gathered elements; the same as reg where no conversion is needed
    TileFunction load;      // null: no conversion
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

  std::uint16_t new_register(std::size_t element_size);

  std::vector<Input> inputs_;
  std::vector<Constant> constants_;           // the immediates, then zeros
  std::vector<std::size_t> zero_constants_;
  std::vector<Instruction> instructions_;
  std::vector<Output> outputs_;
  std::vector<std::size_t> register_bytes_;  // per element; 0: has no tile of its own
  std::int64_t tile_length_ = 1024;
};

}  // namespace hearth::cpu
