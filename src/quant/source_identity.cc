#include "quant/source_identity.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/str.h"
#include "quant/xxh128.h"

namespace glint {

std::string source_fingerprint(const TensorSource& source, const std::string& config) {
  constexpr std::size_t kSamples = 16, kSampleBytes = std::size_t{64} << 10;
  Hasher hasher;
  hasher.add(config);
  const std::span<const StoredTensor> tensors = source.tensors();
  for (std::size_t first = 0, last; first < tensors.size(); first = last) {
    for (last = first; last < tensors.size() && tensors[last].file == tensors[first].file; ++last) {
      hasher.add(str(tensors[last].name, " ", tensors[last].describe(), "\n"));
    }
    const std::byte* begin = tensors[first].bytes.data();
    const std::byte* end = tensors[last - 1].bytes.data() + tensors[last - 1].bytes.size();
    const std::span<const std::byte> data(begin, static_cast<std::size_t>(end - begin));
    for (std::size_t i = 0; i < kSamples && !data.empty(); ++i) {
      const std::size_t at = data.size() / kSamples * i;
      hasher.add(data.subspan(at, std::min(kSampleBytes, data.size() - at)));
    }
    hasher.add(data.last(std::min(kSampleBytes, data.size())));
    discard_pages(data);
  }
  return hasher.hex();
}

std::string source_times(const TensorSource& source) {
  Hasher hasher;
  int file = -1;
  for (const StoredTensor& tensor : source.tensors()) {
    if (tensor.file == file) continue;
    file = tensor.file;
    std::error_code error;
    const auto time =
        std::filesystem::last_write_time(source.file_name(file), error).time_since_epoch();
    hasher.add(str(time.count(), "\n"));
  }
  return hasher.hex();
}

}  // namespace glint
