// Manifest: what a conversion is and how far it came, as a file beside its shards. A shard that
// stands in it was complete and on disk when it was entered; everything else is not trusted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "quant/unit_encoder.h"

namespace glint {

inline constexpr const char* kManifestName = "glint_quantize.json";

struct FinishedShard {
  std::string name = {};
  std::int64_t bytes = 0;  // of the file
  std::string xxh128 = {};
  ErrorSums errors = {};
};

struct Manifest {
  Json job;  // everything that decides the bytes of the result
  std::vector<FinishedShard> shards;

  const FinishedShard* find(std::string_view shard) const;
  ErrorSums errors() const;  // of all shards, in their order by name
};

Json to_json(const Manifest& manifest);
Result<Manifest> parse_manifest(const Json& json);

}  // namespace glint
