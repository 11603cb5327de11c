// A machine for the instructions of pickles that tensors are saved with.
#include "io/pickle_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <unordered_map>
#include <vector>

#include "hearth/error.h"
#include "io/zip.h"

namespace hearth::io {
namespace {

constexpr std::size_t most_axes = 16;
constexpr int deepest_dictionary = 8;
constexpr std::size_t most_entries = 1 << 20;  // of dictionaries, which may hold each other
constexpr std::uint64_t most_copies = 4;       // of the file, in tensors that share bytes

struct StorageType {
  std::string_view name;
  DType dtype;
};
constexpr std::array storage_types{
    StorageType{"FloatStorage", DType::f32}, StorageType{"DoubleStorage", DType::f64},
    StorageType{"HalfStorage", DType::f16},  StorageType{"BFloat16Storage", DType::bf16},
    StorageType{"LongStorage", DType::i64},  StorageType{"IntStorage", DType::i32},
    StorageType{"ByteStorage", DType::u8},   StorageType{"BoolStorage", DType::bool_}};

// What the machine works with. Values are owned by the machine and point at each other as they like.
struct Value {
  enum class Kind {
    none,
    boolean,
    integer,
    real,
    text,
    tuple,
    list,
    dict,
    name,
    storage,
    tensor
  } kind = Kind::none;
  std::int64_t integer = 0;        // boolean, integer; storage: number of elements
  std::string text;                // text; name: "module name"; storage: its key
  std::vector<Value*> items;       // tuple, list; dict: keys and values in turn
  DType dtype = DType::f32;        // storage
  const Value* storage = nullptr;  // tensor
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes, strides;
};

class Machine {
 public:
  Machine(Bytes program, std::string_view source) : program_(program), source_(source) {}

  // Runs to the end; the value that is left.
  const Value& run();

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FormatError(fmt::format("[load_torch] {}: byte {} of the pickle: {}", source_, at_, what));
  }

  Bytes take(std::uint64_t count) {
    if (count > program_.size() - at_) fail("it ends in the middle of an instruction");
    const Bytes bytes = program_.subspan(at_, static_cast<std::size_t>(count));
    at_ += static_cast<std::size_t>(count);
    return bytes;
  }
  template <typename T>
  T number() {
    return load_little<T>(take(sizeof(T)), 0);
  }
  std::string line() {
    std::string text;
    for (;;) {
      const char c = static_cast<char>(take(1)[0]);
      if (c == '\n') return text;
      text += c;
    }
  }

  Value& push(Value::Kind kind) {
    stack_.push_back(&values_.emplace_back());
    stack_.back()->kind = kind;
    return *stack_.back();
  }
  Value& pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size()))
      fail("nothing is left to take");
    Value& value = *stack_.back();
    stack_.pop_back();
    return value;
  }
  Value& top() {
    Value& value = pop();
    stack_.push_back(&value);
    return value;
  }
  // What was pushed since the last mark.
  std::vector<Value*> pop_to_mark() {
    if (marks_.empty()) fail("there is no mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Value*> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  const Value& expect(const Value& value, Value::Kind kind, const char* what) const {
    if (value.kind != kind) fail(fmt::format("{} expected", what));
    return value;
  }

  void push_integer(std::int64_t value) { push(Value::Kind::integer).integer = value; }
  void push_text(std::uint64_t length) { push(Value::Kind::text).text = as_text(take(length)); }
  void push_long(std::uint64_t length) {
    if (length > 8) fail("a whole number of more than 64 bits");
    const Bytes bytes = take(length);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    const bool negative = !bytes.empty() && (std::to_integer<unsigned>(bytes.back()) & 0x80) != 0;
    if (negative && bytes.size() < 8) value |= ~std::uint64_t{0} << (8 * bytes.size());
    push_integer(static_cast<std::int64_t>(value));
  }
  void push_tuple(std::size_t count) {
    std::vector<Value*> items(count);
    for (std::size_t i = count; i > 0; --i) items[i - 1] = &pop();
    push(Value::Kind::tuple).items = std::move(items);
  }
  void push_name(const std::string& module, const std::string& name) {
    const std::string text = module + ' ' + name;
    const bool storage = module == "torch" && std::any_of(storage_types.begin(), storage_types.end(),
                                                          [&](const auto& t) { return t.name == name; });
    if (!storage && text != "torch._utils _rebuild_tensor_v2" && text != "torch._utils _rebuild_parameter" &&
        text != "collections OrderedDict")
      fail(fmt::format(
          "it names {}, which is neither a tensor nor a dictionary; nothing of a file is ever run",
          show(text)));
    push(Value::Kind::name).text = text;
  }

  void set_items(Value& dict, const std::vector<Value*>& items) {
    expect(dict, Value::Kind::dict, "a dictionary");
    if (items.size() % 2 != 0) fail("a key without a value");
    dict.items.insert(dict.items.end(), items.begin(), items.end());
  }
  void memorise(std::uint32_t place) { memory_[place] = &top(); }
  void recall(std::uint32_t place) {
    const auto found = memory_.find(place);
    if (found == memory_.end()) fail("it recalls what it has not kept");
    stack_.push_back(found->second);
  }

  void load_storage();
  void call();
  void rebuild_tensor(const Value& arguments);
  std::vector<std::int64_t> integers(const Value& tuple) const;
  void execute(unsigned instruction);

  Bytes program_;
  std::string_view source_;
  std::size_t at_ = 0;
  bool stopped_ = false;
  std::deque<Value> values_;
  std::vector<Value*> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::unordered_map<std::uint32_t, Value*> memory_;
};

std::vector<std::int64_t> Machine::integers(const Value& tuple) const {
  expect(tuple, Value::Kind::tuple, "a tuple");
  if (tuple.items.size() > most_axes) fail("a tensor with more than 16 axes");
  std::vector<std::int64_t> result;
  for (const Value* item : tuple.items)
    result.push_back(expect(*item, Value::Kind::integer, "a whole number").integer);
  return result;
}

// ("storage", type, key, device, number of elements)
void Machine::load_storage() {
  const Value& id = expect(pop(), Value::Kind::tuple, "a tuple");
  if (id.items.size() != 5 || id.items[0]->text != "storage") fail("not the place of a tensor's bytes");
  const std::string& type = expect(*id.items[1], Value::Kind::name, "a type of storage").text;
  const std::string& key = expect(*id.items[2], Value::Kind::text, "a text").text;
  const std::int64_t count = expect(*id.items[4], Value::Kind::integer, "a whole number").integer;
  const auto known = std::find_if(storage_types.begin(), storage_types.end(),
                                  [&](const auto& t) { return type == "torch " + std::string(t.name); });
  if (known == storage_types.end()) fail("not a type of storage");
  if (count < 0) fail("a negative number of elements");
  Value& storage = push(Value::Kind::storage);
  storage.text = key;
  storage.integer = count;
  storage.dtype = known->dtype;
}

// (storage, offset, sizes, strides, requires_grad, hooks, ...)
void Machine::rebuild_tensor(const Value& arguments) {
  if (arguments.items.size() < 4) fail("a tensor needs its storage, offset, sizes and strides");
  Value tensor;
  tensor.kind = Value::Kind::tensor;
  tensor.storage = &expect(*arguments.items[0], Value::Kind::storage, "a storage");
  tensor.offset = expect(*arguments.items[1], Value::Kind::integer, "a whole number").integer;
  tensor.sizes = integers(*arguments.items[2]);
  tensor.strides = integers(*arguments.items[3]);
  if (tensor.sizes.size() != tensor.strides.size()) fail("sizes and strides of a tensor differ in number");
  // The last element that it has must be one of the storage's.
  bool empty = false;
  unsigned __int128 last = static_cast<unsigned __int128>(std::max<std::int64_t>(tensor.offset, 0));
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] < 0 || tensor.strides[i] < 0) fail("a negative size or stride");
    if (tensor.sizes[i] == 0)
      empty = true;
    else
      last += static_cast<unsigned __int128>(tensor.sizes[i] - 1) *
              static_cast<unsigned __int128>(tensor.strides[i]);
  }
  if (tensor.offset < 0 || (!empty && last >= static_cast<unsigned __int128>(tensor.storage->integer)))
    fail("a tensor reaches beyond its storage");
  push(Value::Kind::none);
  *stack_.back() = std::move(tensor);
}

void Machine::call() {
  const Value& arguments = expect(pop(), Value::Kind::tuple, "a tuple");
  const std::string& function = expect(pop(), Value::Kind::name, "a function").text;
  if (function == "torch._utils _rebuild_tensor_v2") return rebuild_tensor(arguments);
  if (function == "torch._utils _rebuild_parameter" && !arguments.items.empty()) {
    expect(*arguments.items[0], Value::Kind::tensor, "a tensor");
    stack_.push_back(arguments.items[0]);
    return;
  }
  if (function == "collections OrderedDict" && arguments.items.empty()) {
    push(Value::Kind::dict);
    return;
  }
  fail(fmt::format("{} is called with something else than a tensor's parts", show(function)));
}

void Machine::execute(unsigned instruction) {
  using Kind = Value::Kind;
  switch (instruction) {
    case 0x80:  // PROTO
      if (const auto version = number<std::uint8_t>(); version > 5)
        fail("a version of pickle that is not known");
      return;
    case 0x95:  // FRAME
      number<std::uint64_t>();
      return;
    case '.':
      stopped_ = true;
      return;
    case '(':
      marks_.push_back(stack_.size());
      return;
    case '0':
      pop();
      return;
    case '1':
      pop_to_mark();
      return;
    case 'N':
      push(Kind::none);
      return;
    case 0x88:
    case 0x89:
      push(Kind::boolean).integer = instruction == 0x88;
      return;
    case 'J':
      return push_integer(static_cast<std::int32_t>(number<std::uint32_t>()));
    case 'K':
      return push_integer(number<std::uint8_t>());
    case 'M':
      return push_integer(number<std::uint16_t>());
    case 0x8a:
      return push_long(number<std::uint8_t>());
    case 0x8b:
      return push_long(number<std::uint32_t>());
    case 'G':
      take(8);
      push(Kind::real);
      return;
    case 'X':
      return push_text(number<std::uint32_t>());
    case 0x8c:
      return push_text(number<std::uint8_t>());
    case 0x8d:
      return push_text(number<std::uint64_t>());
    case ')':
      return push_tuple(0);
    case 0x85:
      return push_tuple(1);
    case 0x86:
      return push_tuple(2);
    case 0x87:
      return push_tuple(3);
    case 't': {
      auto items = pop_to_mark();
      push(Kind::tuple).items = std::move(items);
      return;
    }
    case ']':
      push(Kind::list);
      return;
    case '}':
      push(Kind::dict);
      return;
    case 'a': {
      Value& item = pop();
      Value& list = top();
      expect(list, Kind::list, "a list");
      list.items.push_back(&item);
      return;
    }
    case 'e': {
      const auto items = pop_to_mark();
      Value& list = top();
      expect(list, Kind::list, "a list");
      list.items.insert(list.items.end(), items.begin(), items.end());
      return;
    }
    case 's': {
      Value& value = pop();
      Value& key = pop();
      return set_items(top(), {&key, &value});
    }
    case 'u': {
      const auto items = pop_to_mark();
      return set_items(top(), items);
    }
    case 'q':
      return memorise(number<std::uint8_t>());
    case 'r':
      return memorise(number<std::uint32_t>());
    case 0x94:
      return memorise(static_cast<std::uint32_t>(memory_.size()));
    case 'h':
      return recall(number<std::uint8_t>());
    case 'j':
      return recall(number<std::uint32_t>());
    case 'c': {
      const std::string module = line();
      return push_name(module, line());
    }
    case 0x93: {
      const std::string name = expect(pop(), Kind::text, "a text").text;
      return push_name(expect(pop(), Kind::text, "a text").text, name);
    }
    case 'Q':
      return load_storage();
    case 'R':
      return call();
    case 'b':  // attributes of a dictionary, which say nothing of tensors
      pop();
      expect(top(), Kind::dict, "a dictionary");
      return;
    default:
      fail(fmt::format("instruction 0x{:02x} is none that tensors are saved with", instruction));
  }
}

const Value& Machine::run() {
  while (!stopped_) execute(number<std::uint8_t>());
  marks_.clear();
  return pop();
}

class Checkpoint {
 public:
  Checkpoint(Bytes file, std::string_view source) : file_(file), source_(source) {
    constexpr std::string_view zip_start = "PK";
    if (!as_text(file).starts_with(zip_start))
      fail("not a zip archive; PyTorch saves them since 1.6, older files must be saved again");
    for (const ZipEntry& entry : read_zip_directory(file, source)) {
      const auto slash = entry.name.find('/');
      if (slash == std::string::npos) continue;
      if (entry.deflated) fail("a compressed archive; PyTorch writes none");
      members_.emplace(entry.name.substr(slash + 1), entry);
    }
  }

  std::map<std::string, Array> tensors() {
    const auto order = members_.find("byteorder");
    if (order != members_.end() && as_text(member("byteorder")) != "little")
      fail("written on a big-endian machine");
    const std::vector<std::byte> program = member("data.pkl");
    Machine machine(program, source_);
    const Value& value = machine.run();
    if (value.kind != Value::Kind::dict) fail("not a dictionary of tensors");
    std::map<std::string, Array> result;
    collect(value, "", deepest_dictionary, result);
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FormatError(fmt::format("[load_torch] {}: {}", source_, what));
  }

  std::vector<std::byte> member(const std::string& name) const {
    const auto found = members_.find(name);
    if (found == members_.end()) fail(fmt::format("the archive has no member {}", show(name)));
    std::vector<std::byte> bytes(static_cast<std::size_t>(found->second.size));
    ZipMemberReader(file_, found->second, source_).read(bytes);
    return bytes;
  }

  void collect(const Value& dict, const std::string& prefix, int depth,
               std::map<std::string, Array>& result) {
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      if (++entries_ > most_entries) fail("too many entries");
      const Value &key = *dict.items[i], &value = *dict.items[i + 1];
      if (key.kind != Value::Kind::text) continue;
      const std::string name = prefix + key.text;
      if (value.kind == Value::Kind::tensor) {
        if (!result.emplace(name, array_of(value)).second) fail(fmt::format("two tensors {}", show(name)));
      } else if (value.kind == Value::Kind::dict) {
        if (depth == 0) fail("dictionaries within dictionaries are nested too deeply");
        collect(value, name + '.', depth - 1, result);
      }
    }
  }

  Array array_of(const Value& tensor) {
    const Value& storage = *tensor.storage;
    const std::size_t size = dtype_size(storage.dtype);
    const auto& bytes = storage_bytes_of(storage);
    const Shape shape(tensor.sizes.begin(), tensor.sizes.end());
    const auto total = array_bytes(shape, size);
    // A tensor may be a broadcast view, but not one that makes much of little.
    if (!total || *total > std::max<std::uint64_t>(bytes->size(), 1))
      fail("a tensor is larger than its storage");
    copied_ += *total;
    if (copied_ > most_copies * file_.size()) fail("too many tensors share the same bytes");
    std::vector<std::byte> dense(static_cast<std::size_t>(*total));
    std::vector<std::int64_t> index(shape.size(), 0);
    for (std::size_t at = 0; at < dense.size(); at += size) {
      std::int64_t element = tensor.offset;
      for (std::size_t i = 0; i < index.size(); ++i) element += index[i] * tensor.strides[i];
      std::memcpy(dense.data() + at, bytes->data() + static_cast<std::size_t>(element) * size, size);
      for (std::size_t i = index.size(); i > 0 && ++index[i - 1] == tensor.sizes[i - 1]; --i)
        index[i - 1] = 0;
    }
    if (storage.dtype == DType::bool_ && find_bad_bool(dense)) fail("a truth value that is neither 0 nor 1");
    return owned_array(storage.dtype, shape, std::move(dense));
  }

  const std::shared_ptr<std::vector<std::byte>>& storage_bytes_of(const Value& storage) {
    auto& bytes = storages_[storage.text];
    if (!bytes) bytes = std::make_shared<std::vector<std::byte>>(member("data/" + storage.text));
    const auto needed =
        checked_product(static_cast<std::uint64_t>(storage.integer), dtype_size(storage.dtype));
    if (!needed || *needed > bytes->size()) fail(fmt::format("storage {} is too short", show(storage.text)));
    return bytes;
  }

  Bytes file_;
  std::string_view source_;
  std::size_t entries_ = 0;
  std::uint64_t copied_ = 0;
  std::map<std::string, ZipEntry> members_;  // without the archive's name in front
  std::map<std::string, std::shared_ptr<std::vector<std::byte>>> storages_;
};

}  // namespace

std::map<std::string, Array> parse_torch_checkpoint(Bytes file, std::string_view source) {
  return Checkpoint(file, source).tensors();
}

}  // namespace hearth::io
