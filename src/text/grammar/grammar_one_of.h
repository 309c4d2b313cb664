// OneOfs: each "oneOf" that is as good as "anyOf": no value fits two of its schemas, as their types
// differ, or their objects in a text that each must have: Pydantic's and OpenAPI's unions, which
// call it their discriminator.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace glint {

class OneOfs {
 public:
  explicit OneOfs(Json& root) : root_(root) {}

  // Remembers `schema`, a part of `root`, if it has one.
  void find(const Json& schema, const std::string& path);
  // Makes them "anyOf": the compiler sees only some of them, and refuses others. At the end, when
  // nobody walks over what changes here.
  void open();

 private:
  bool find_tag(const Json& schema,
                const std::vector<std::pair<const Json*, std::string>>& objects);

  Json& root_;
  std::vector<std::string> disjoint_;  // paths of schemas
  // Paths of objects, and what tells each from the others of its "oneOf".
  std::vector<std::pair<std::string, std::string>> tags_;
};

}  // namespace glint
