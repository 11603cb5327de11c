// Register allocation and the interpreter loop of tile programs.
#include "cpu/tile_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "cpu/dispatch.h"
#include "hearth/error.h"

namespace hearth::cpu {

AlignedBytes::AlignedBytes(std::size_t bytes)
    : data_(static_cast<char*>(::operator new (std::max<std::size_t>(bytes, 1), std::align_val_t{64}))) {}
AlignedBytes::~AlignedBytes() { ::operator delete (data_, std::align_val_t{64}); }

// ---- TileSource

TileSource::TileSource(const Layout& layout) : size_(dtype_size(layout.dtype)) {
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    if (layout.shape[i] == 1) continue;
    if (!shape_.empty() && strides_.back() == layout.strides[i] * layout.shape[i]) {
      shape_.back() *= layout.shape[i];
      strides_.back() = layout.strides[i];
    } else {
      shape_.push_back(layout.shape[i]);
      strides_.push_back(layout.strides[i]);
    }
  }
  scalar_ = std::all_of(strides_.begin(), strides_.end(), [](std::int64_t stride) { return stride == 0; });
  dense_ = shape_.empty() || (shape_.size() == 1 && strides_[0] == 1);
  if (shape_.size() > 1 && strides_[0] == 0) {
    period_ = 1;
    for (std::size_t i = 1; i < shape_.size(); ++i) period_ *= shape_[i];
  }
  if (shape_.empty()) {
    shape_.push_back(1);
    strides_.push_back(1);
  }
}

namespace {

template <typename T>
void copy_run(T* out, const T* in, std::int64_t stride, std::int64_t n) {
  if (stride == 1) {
    std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(T));
  } else if (stride == 0) {
    std::fill_n(out, n, *in);
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = in[i * stride];
  }
}

template <typename T>
void gather_elements(const T* base, const Shape& shape, const Strides& strides, std::int64_t start,
                     std::int64_t n, T* out) {
  const std::size_t inner = shape.size() - 1;
  Shape index(shape.size());
  std::int64_t rest = start, offset = 0;
  for (std::size_t i = shape.size(); i-- > 0;) {
    index[i] = rest % shape[i];
    rest /= shape[i];
    offset += index[i] * strides[i];
  }
  while (n > 0) {
    const auto run = std::min(n, shape[inner] - index[inner]);
    copy_run(out, base + offset, strides[inner], run);
    out += run;
    n -= run;
    if (n == 0) return;
    offset -= index[inner] * strides[inner];
    index[inner] = 0;
    for (std::size_t i = inner; i-- > 0;) {
      offset += strides[i];
      if (++index[i] < shape[i]) break;
      offset -= shape[i] * strides[i];
      index[i] = 0;
    }
  }
}

}  // namespace

const char* TileSource::element(const void* base, std::int64_t start) const {
  std::int64_t offset = 0;
  for (std::size_t i = shape_.size(); i-- > 0;) {
    offset += start % shape_[i] * strides_[i];
    start /= shape_[i];
  }
  return static_cast<const char*>(base) + offset * static_cast<std::int64_t>(size_);
}

void TileSource::gather(const void* base, std::int64_t start, std::int64_t n, void* out) const {
  switch (size_) {
    case 1:
      return gather_elements(static_cast<const std::uint8_t*>(base), shape_, strides_, start, n,
                             static_cast<std::uint8_t*>(out));
    case 2:
      return gather_elements(static_cast<const std::uint16_t*>(base), shape_, strides_, start, n,
                             static_cast<std::uint16_t*>(out));
    case 4:
      return gather_elements(static_cast<const std::uint32_t*>(base), shape_, strides_, start, n,
                             static_cast<std::uint32_t*>(out));
    default:
      return gather_elements(static_cast<const std::uint64_t*>(base), shape_, strides_, start, n,
                             static_cast<std::uint64_t*>(out));
  }
}

// ---- TileProgram

std::uint16_t TileProgram::new_register(std::size_t element_size, bool single) {
  registers_.push_back({element_size, single});
  return static_cast<std::uint16_t>(registers_.size() - 1);
}

std::size_t TileProgram::register_bytes(std::size_t reg) const {
  const auto bytes =
      registers_[reg].element_size * static_cast<std::size_t>(registers_[reg].single ? 1 : tile_length_);
  return (bytes + 63) / 64 * 64;
}

namespace {

TileFunction function_of(const Expression::Instruction& source) {
  const auto& kernels = elementwise_kernels();
  const Compute from = compute_of(source.operand), to = compute_of(source.result);
  TileFunction function;
  if (source.op == Op::where)
    function = kernels.where[static_cast<int>(from)];
  else if (source.op == Op::cast && source.result == DType::bool_)
    function = kernels.operations[static_cast<int>(Op::ne)][static_cast<int>(from)];
  else if (source.op == Op::cast && from == Compute::f64 && source.result != DType::f32 && to == Compute::f32)
    function = kernels.convert_to_odd;
  else if (source.op == Op::cast)
    function = kernels.convert[static_cast<int>(from)][static_cast<int>(to)];
  else
    function = kernels.operations[static_cast<int>(source.op)][static_cast<int>(from)];
  if (!function)
    throw DTypeError(
        fmt::format("[{}] has no CPU kernel for {}", op_name(source.op), dtype_name(source.operand)));
  return function;
}

}  // namespace

std::vector<TileProgram::Operation> TileProgram::choose_operations(const Expression& expression,
                                                                   const std::vector<bool>& single) {
  const auto& kernels = elementwise_kernels();
  const std::size_t first_result = expression.first_result();
  const auto is_single = [&](std::size_t value) {
    return value < expression.inputs.size() ? value < single.size() && single[value] : value < first_result;
  };
  std::vector<int> uses(first_result + expression.instructions.size(), 0);
  for (const auto& source : expression.instructions)
    for (int a = 0; a < operand_count(source.op); ++a) ++uses[source.operands[a]];
  for (auto value : expression.outputs) uses[value] += 2;

  // Chains run where their last operation stands. None of their operations is moved past an output, which may
  // be written over memory that the operation reads.
  constexpr std::size_t none = ~std::size_t{0};
  std::vector<std::size_t> chain_of(uses.size(), none);  // the chain that ends with a value
  std::size_t after_last_output = first_result;          // the first result that comes after it

  std::vector<Operation> operations;
  for (std::size_t k = 0; k < expression.instructions.size(); ++k) {
    const auto& source = expression.instructions[k];
    const std::size_t result = first_result + k;
    const int count = operand_count(source.op);
    const int cheap =
        source.operand == DType::f32 && source.result == DType::f32 ? cheap_index(source.op) : -1;
    Operation operation{function_of(source), result, {}, {}, {}};
    for (int a = 0; a < count; ++a) operation.operands.push_back(source.operands[a]);
    operation.single.resize(operation.operands.size(), false);
    const auto single_operand = [&](int a) {
      return is_single(operation.operands[static_cast<std::size_t>(a)]);
    };

    const auto goes_on = [&] {
      for (int side = 0; cheap >= 0 && side < count; ++side) {
        const std::size_t value = source.operands[side];
        const std::size_t chain = chain_of[value];
        if (chain == none || uses[value] != 1 || value < after_last_output ||
            operations[chain].codes.size() == longest_chain)
          continue;
        const bool number = count == 2 && single_operand(1 - side);
        Operation longer = std::move(operations[chain]);
        operations[chain] = {};
        longer.function = nullptr;
        longer.result = result;
        longer.codes.push_back(chain_code(cheap, side == 1, number));
        if (count == 2) {
          longer.operands.push_back(source.operands[1 - side]);
          longer.single.push_back(number);
        }
        operation = std::move(longer);
        return true;
      }
      return false;
    };
    if (!goes_on()) {
      const bool numbers_known = count == 2 && compute_of(source.operand) == Compute::f32 &&
                                 kernels.left_number[static_cast<int>(source.op)];
      const bool left = numbers_known && single_operand(0), right = numbers_known && single_operand(1);
      if (left != right) {
        operation.function = (left ? kernels.left_number : kernels.right_number)[static_cast<int>(source.op)];
        operation.single[left ? 0 : 1] = true;
      }
      if (cheap >= 0) operation.codes.push_back(chain_code(cheap, left && !right, left != right));
    }
    if (cheap >= 0) chain_of[result] = operations.size();
    operations.push_back(std::move(operation));
    if (uses[result] > 1 &&
        std::find(expression.outputs.begin(), expression.outputs.end(), result) != expression.outputs.end())
      after_last_output = result + 1;
  }
  std::erase_if(operations, [](const Operation& operation) { return operation.operands.empty(); });
  // A chain starts with a run of elements: `number op x` with x.
  for (auto& operation : operations)
    if (!operation.function && operation.single[0]) {
      std::swap(operation.operands[0], operation.operands[1]);
      std::vector<bool>::swap(operation.single[0], operation.single[1]);
    }
  return operations;
}

TileProgram::TileProgram(const Expression& expression, const std::vector<bool>& single) {
  const auto& kernels = elementwise_kernels();
  const std::size_t first_result = expression.first_result();
  const std::size_t value_count = first_result + expression.instructions.size();
  const std::vector<Operation> operations = choose_operations(expression, single);

  // The last operation that reads each value; outputs live to the end. Single values need a tile if any
  // operation reads one, or if they are an output.
  constexpr std::size_t forever = ~std::size_t{0};
  std::vector<std::size_t> last_use(value_count, 0);
  std::vector<bool> needs_tile(value_count, false);
  for (std::size_t k = 0; k < operations.size(); ++k)
    for (std::size_t a = 0; a < operations[k].operands.size(); ++a) {
      last_use[operations[k].operands[a]] = k;
      if (!operations[k].single[a]) needs_tile[operations[k].operands[a]] = true;
    }
  for (auto value : expression.outputs) {
    last_use[value] = forever;
    needs_tile[value] = true;
  }

  std::vector<std::uint16_t> registers(value_count);
  for (std::size_t i = 0; i < expression.inputs.size(); ++i) {
    const DType dtype = expression.inputs[i];
    const bool one = i < single.size() && single[i] && !needs_tile[i];
    Input input{dtype, 0, 0, kernels.load[static_cast<int>(dtype)]};
    input.raw = new_register(dtype_size(dtype), one);
    input.reg = input.load ? new_register(compute_size(compute_of(dtype)), one) : input.raw;
    registers[i] = input.reg;
    inputs_.push_back(input);
  }
  for (std::size_t i = 0; i < expression.immediates.size(); ++i) {
    const DType dtype = expression.immediates[i];
    const std::size_t value = expression.inputs.size() + i;
    constants_.push_back({dtype, new_register(compute_size(compute_of(dtype)), !needs_tile[value])});
    registers[value] = constants_.back().reg;
  }

  // Results: a register is free again after the last use of its value. Registers of outputs are not shared,
  // so that they can be the output's memory.
  std::vector<std::uint16_t> free_registers[2];  // of 4 and 8 bytes per element
  const auto release = [&](std::size_t value, std::size_t k) {
    if (value >= first_result && last_use[value] == k) {
      const auto reg = registers[value];
      auto& list = free_registers[registers_[reg].element_size == 8];
      if (std::find(list.begin(), list.end(), reg) == list.end()) list.push_back(reg);
    }
  };
  for (std::size_t k = 0; k < operations.size(); ++k) {
    const Operation& operation = operations[k];
    const auto& source = expression.instructions[operation.result - first_result];
    Instruction instruction{operation.function, 0, 0, 0, 0, 0, 0};
    instruction.a = registers[operation.operands[0]];
    if (operation.function) {
      if (operation.operands.size() > 1) instruction.b = registers[operation.operands[1]];
      if (operation.operands.size() > 2) instruction.c = registers[operation.operands[2]];
    } else {
      instruction.first_link = static_cast<std::uint16_t>(links_.size());
      instruction.links = static_cast<std::uint16_t>(operation.codes.size());
      std::size_t next = 1;
      for (int code : operation.codes) {
        const bool binary = code >= 4 * cheap_unary_count;
        links_.push_back({code, binary ? registers[operation.operands[next++]] : std::uint16_t{0}});
      }
    }
    if (source.op == Op::cast && source.result == DType::bool_) {
      // x != 0, with a zero tile for the right-hand side.
      constants_.push_back({source.operand, new_register(compute_size(compute_of(source.operand)))});
      zero_constants_.push_back(constants_.size() - 1);
      instruction.b = constants_.back().reg;
    }

    for (auto operand : operation.operands) release(operand, k);
    const std::size_t size = compute_size(compute_of(source.result));
    auto& list = free_registers[size == 8];
    if (last_use[operation.result] == forever || list.empty()) {
      registers[operation.result] = new_register(size);
    } else {
      registers[operation.result] = list.back();
      list.pop_back();
    }
    instruction.out = registers[operation.result];
    instructions_.push_back(instruction);

    // Results of narrow types wrap or round as if they had been stored: fusion does not change values.
    // Floating values saturate when they become narrow integers.
    const auto result = static_cast<int>(source.result);
    const bool saturates = source.op == Op::cast && is_floating(source.operand) && kernels.saturate[result];
    if (const TileFunction narrow = saturates ? kernels.saturate[result] : kernels.narrow[result])
      instructions_.push_back({narrow, instruction.out, instruction.out, 0, 0, 0, 0});
  }

  for (std::size_t k = 0; k < expression.outputs.size(); ++k) {
    const auto value = expression.outputs[k];
    const DType dtype = expression.dtype(value);
    const TileFunction store = kernels.store[static_cast<int>(dtype)];
    const bool first =
        std::find(expression.outputs.begin(), expression.outputs.begin() + static_cast<std::ptrdiff_t>(k),
                  value) == expression.outputs.begin() + static_cast<std::ptrdiff_t>(k);
    outputs_.push_back({dtype, registers[value], store, !store && value >= first_result && first});
  }

  // As long as the tiles of all registers together fit the first-level cache; longer where nothing stays
  // between instructions, since a chain of links is predicted badly at first.
  std::size_t bytes = 0;
  for (const auto& reg : registers_)
    if (!reg.single) bytes += reg.element_size;
  tile_length_ = instructions_.size() == 1 ? 8192 : 2048;
  const std::size_t most = instructions_.size() == 1 ? 128 * 1024 : 32 * 1024;
  while (tile_length_ > 256 && static_cast<std::size_t>(tile_length_) * bytes > most) tile_length_ /= 2;
}

TileProgram::Workspace::Workspace(const TileProgram& program, const Number* numbers)
    : memory_([&] {
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < program.registers_.size(); ++i) bytes += program.register_bytes(i);
        return static_cast<std::int64_t>(bytes / sizeof(float));
      }()),
      registers_(program.registers_.size()),
      loaded_(program.inputs_.size(), false) {
  char* next = reinterpret_cast<char*>(memory_.data());
  for (std::size_t i = 0; i < registers_.size(); ++i) {
    registers_[i] = next;
    next += program.register_bytes(i);
  }
  for (const Input& input : program.inputs_) gathered_.push_back(registers_[input.raw]);
  std::size_t number = 0;
  for (std::size_t i = 0; i < program.constants_.size(); ++i) {
    const auto& constant = program.constants_[i];
    const bool zero = std::find(program.zero_constants_.begin(), program.zero_constants_.end(), i) !=
                      program.zero_constants_.end();
    const Number value = zero ? Number{} : numbers[number++];
    void* tile = registers_[constant.reg];
    const auto n = program.registers_[constant.reg].single ? 1 : program.tile_length_;
    switch (compute_of(constant.dtype)) {
      case Compute::f32:
        std::fill_n(static_cast<float*>(tile), n,
                    constant.dtype == DType::f16    ? float(float16(static_cast<float>(value.real)))
                    : constant.dtype == DType::bf16 ? float(bfloat16(static_cast<float>(value.real)))
                                                    : static_cast<float>(value.real));
        break;
      case Compute::f64:
        std::fill_n(static_cast<double*>(tile), n, value.real);
        break;
      case Compute::i32:
        std::fill_n(static_cast<std::int32_t*>(tile), n, static_cast<std::int32_t>(value.integer));
        if (auto narrow = elementwise_kernels().narrow[static_cast<int>(constant.dtype)])
          narrow(tile, tile, nullptr, nullptr, n);
        break;
      case Compute::i64:
        std::fill_n(static_cast<std::int64_t*>(tile), n, value.integer);
        break;
    }
  }
}

void TileProgram::set_input(Workspace& workspace, std::size_t i, const void* elements, std::int64_t n) const {
  const Input& input = inputs_[i];
  if (input.load)
    input.load(workspace.registers_[input.reg], elements, nullptr, nullptr, n);
  else
    workspace.registers_[input.reg] = const_cast<void*>(elements);
}

void TileProgram::set_strided(Workspace& workspace, std::size_t i, const void* elements, std::int64_t stride,
                              std::int64_t n) const {
  void* raw = workspace.gathered_[i];
  dispatch_size(inputs_[i].dtype, [&]<typename T>(std::type_identity<T>) {
    copy_run(static_cast<T*>(raw), static_cast<const T*>(elements), stride, n);
  });
  set_input(workspace, i, raw, n);
}

void TileProgram::set_single(Workspace& workspace, std::size_t i, const void* element, std::int64_t n) const {
  if (registers_[inputs_[i].raw].single)
    set_input(workspace, i, element, 1);
  else
    set_strided(workspace, i, element, 0, n);
}

void TileProgram::read_input(Workspace& workspace, std::size_t i, const TileSource& source, const void* base,
                             std::int64_t start, std::int64_t n) const {
  if (source.scalar()) {
    if (workspace.loaded_[i]) return;
    workspace.loaded_[i] = true;
    set_single(workspace, i, base, tile_length_);
  } else if (source.dense()) {
    set_input(workspace, i, source.at(base, start), n);
  } else if (source.side_by_side(start, n)) {
    set_input(workspace, i, source.element(base, start), n);
  } else {
    void* raw = workspace.gathered_[i];
    source.gather(base, start, n, raw);
    set_input(workspace, i, raw, n);
  }
}

void TileProgram::set_output(Workspace& workspace, std::size_t k, void* elements) const {
  if (outputs_[k].direct) workspace.registers_[outputs_[k].reg] = elements;
}

void TileProgram::run(Workspace& workspace, std::int64_t n) const {
  void* const* registers = workspace.registers_.data();
  for (const auto& instruction : instructions_) {
    if (instruction.function) {
      instruction.function(registers[instruction.out], registers[instruction.a], registers[instruction.b],
                           registers[instruction.c], n);
    } else {
      ChainLink links[longest_chain];
      for (std::size_t k = 0; k < instruction.links; ++k) {
        const Link& link = links_[instruction.first_link + k];
        links[k] = {link.code, static_cast<const float*>(registers[link.operand])};
      }
      elementwise_kernels().chain(static_cast<float*>(registers[instruction.out]),
                                  static_cast<const float*>(registers[instruction.a]), links,
                                  instruction.links, n);
    }
  }
}

void TileProgram::write_output(Workspace& workspace, std::size_t k, void* elements, std::int64_t n) const {
  const Output& output = outputs_[k];
  const void* tile = workspace.registers_[output.reg];
  if (output.store)
    output.store(elements, tile, nullptr, nullptr, n);
  else if (tile != elements)
    std::memcpy(elements, tile, static_cast<std::size_t>(n) * dtype_size(output.dtype));
}

}  // namespace hearth::cpu
