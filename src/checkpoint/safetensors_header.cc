// One file: from bytes to checked tensors. Pure; tests/fuzz/safetensors_fuzz.cc feeds it.
#include <algorithm>
#include <cstring>

#include "base/json.h"
#include "base/str.h"
#include "checkpoint/safetensors.h"

namespace glint {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
// A header has eight values for a tensor. Half a million tensors in one file is far beyond any
// model.
constexpr std::size_t kMaxHeaderValues = std::size_t{1} << 22;
constexpr int kMaxHeaderDepth = 4;

// A tensor as the header describes it, before its offsets are compared with the others'.
struct Entry {
  StoredTensor tensor;
  std::int64_t begin = 0, end = 0;  // within the data
};

Result<std::vector<std::int64_t>> parse_sizes(const Json* json, const char* what) {
  if (!json || !json->is_array()) {
    return invalid(str(what, " is ", json ? json->kind() : "missing", "; expected a list"));
  }
  std::vector<std::int64_t> sizes;
  sizes.reserve(json->as_array().size());
  for (const Json& item : json->as_array()) {
    if (!item.is_int() || item.as_int() < 0) {
      return invalid(str(what, " holds ", item.is_int() ? "a negative number" : item.kind(),
                         "; expected sizes that fit in 63 bits"));
    }
    sizes.push_back(item.as_int());
  }
  return sizes;
}

// Bytes of a tensor; fails if they do not fit in 63 bits or are no whole number.
Result<std::int64_t> byte_size(const StoredTensor& tensor) {
  std::int64_t bits = bits_of(tensor.type);
  bool overflow = false;
  for (const std::int64_t dim : tensor.shape) overflow |= __builtin_mul_overflow(bits, dim, &bits);
  // A zero among the dims hides an overflow of the others, which size() would meet again.
  std::int64_t elements = 1;
  for (const std::int64_t dim : tensor.shape) {
    overflow |= __builtin_mul_overflow(elements, dim, &elements);
  }
  if (overflow) return invalid(str("shape ", describe_shape(tensor.shape), " overflows"));
  if (bits % 8) return invalid(tensor.describe() + " does not end on a whole byte");
  return bits / 8;
}

Result<Entry> parse_entry(const std::string& name, const Json& json) {
  Entry entry;
  entry.tensor.name = name;
  if (!json.is_object()) return invalid(str("its entry is ", json.kind(), "; expected an object"));
  const Json* dtype = json.find("dtype");
  if (!dtype || !dtype->is_string()) {
    return invalid(str("dtype is ", dtype ? dtype->kind() : "missing", "; expected a text"));
  }
  const auto type = parse_stored_type(dtype->as_string());
  if (!type) {
    return invalid(
        str("dtype is ", quoted(dtype->as_string(), 40), "; expected one of safetensors'"));
  }
  entry.tensor.type = *type;
  GLINT_TRY(entry.tensor.shape, parse_sizes(json.find("shape"), "shape"));
  GLINT_TRY(const auto offsets, parse_sizes(json.find("data_offsets"), "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return invalid(str("data_offsets is ", describe_shape(offsets), "; expected [begin, end]"));
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  GLINT_TRY(const std::int64_t bytes, byte_size(entry.tensor));
  if (bytes != entry.end - entry.begin) {
    return invalid(str(entry.tensor.describe(), " takes ", bytes, " bytes, but data_offsets ",
                       describe_shape(offsets), " span ", entry.end - entry.begin));
  }
  return entry;
}

Result<std::string_view> find_header(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.size() < 8) {
    return invalid(str("the file is cut short: it has ", text.size(),
                       " bytes, fewer than the 8 of the header's length"));
  }
  std::uint64_t length = 0;
  static_assert(std::endian::native == std::endian::little, "files are little-endian");
  std::memcpy(&length, text.data(), 8);
  if (length > text.size() - 8) {
    return invalid(str("the header should have ", length, " bytes, but only ", text.size() - 8,
                       " follow its length"));
  }
  if (length > kMaxHeaderBytes) {
    return invalid(str("the header has ", length, " bytes; expected at most ", kMaxHeaderBytes));
  }
  return text.substr(8, length);
}

// The entries, sorted, must tile the data. Gives each tensor its bytes.
Status place(std::vector<Entry>& entries, std::span<const std::byte> data) {
  // By end too, so that an empty tensor comes before the one that begins where it does.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::int64_t at = 0;
  const std::string* before = nullptr;
  for (Entry& entry : entries) {
    const std::string name = "tensor " + quoted(entry.tensor.name);
    if (entry.begin != at) {
      const std::string where = before ? str("tensor ", quoted(*before)) : "the header";
      return invalid(str(name, " begins at byte ", entry.begin, " of the data and ",
                         entry.begin < at ? "overlaps " : "leaves a gap after ", where,
                         ", which ends at ", at));
    }
    if (entry.end > static_cast<std::int64_t>(data.size())) {
      return invalid(str("the file is cut short: ", name, " ends at byte ", entry.end,
                         " of the data, of which there are ", data.size()));
    }
    entry.tensor.bytes = data.subspan(static_cast<std::size_t>(entry.begin),
                                      static_cast<std::size_t>(entry.end - entry.begin));
    at = entry.end;
    before = &entry.tensor.name;
  }
  if (at != static_cast<std::int64_t>(data.size())) {
    return invalid(
        str("the tensors end at byte ", at, " of the data, but there are ", data.size()));
  }
  return Ok{};
}

}  // namespace

Result<std::vector<StoredTensor>> parse_safetensors(std::span<const std::byte> file) {
  GLINT_TRY(const std::string_view header, find_header(file));
  Result<Json> parsed = parse_json(header, {.max_depth = kMaxHeaderDepth,
                                            .allow_duplicate_keys = false,
                                            .max_values = kMaxHeaderValues});
  GLINT_TRY(const Json json, std::move(parsed).in("the header"));
  if (!json.is_object()) {
    return invalid(str("the header is ", json.kind(), "; expected an object"));
  }
  std::vector<Entry> entries;
  entries.reserve(json.as_object().size());
  for (const auto& [name, value] : json.as_object()) {
    if (name == "__metadata__") continue;
    Result<Entry> entry = parse_entry(name, value);
    if (!entry.ok()) return std::move(entry).take_error().in(str("tensor ", quoted(name)));
    entries.push_back(std::move(entry).value());
  }
  GLINT_TRY_STATUS(place(entries, file.subspan(8 + header.size())));
  std::vector<StoredTensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) tensors.push_back(std::move(entry.tensor));
  return tensors;
}

}  // namespace glint
