#include "base/json_pointer.h"

#include <algorithm>
#include <string>

namespace glint {

const Json* follow_pointer(const Json& root, std::string_view pointer) {
  const Json* at = &root;
  while (at && !pointer.empty()) {
    if (pointer.front() != '/') return nullptr;
    pointer.remove_prefix(1);
    const std::size_t end = std::min(pointer.find('/'), pointer.size());
    std::string key;
    for (std::size_t i = 0; i < end; ++i) {
      const bool escape = pointer[i] == '~' && i + 1 < end;
      key += !escape ? pointer[i] : pointer[++i] == '1' ? '/' : '~';
    }
    pointer.remove_prefix(end);
    at = at->find(key);
  }
  return at;
}

}  // namespace glint
