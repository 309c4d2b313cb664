#include "text/grammar/grammar_all_of.h"

#include <vector>

#include "base/contains.h"
#include "base/cut_text.h"
#include "base/json_pointer.h"
#include "base/str.h"
#include "text/grammar/grammar_keywords.h"

namespace glint {
namespace {

// The first of two that differ stays: they require nothing.
bool is_annotation(std::string_view name) {
  return contains(
             {"title", "description", "default", "examples", "example", "deprecated", "readOnly",
              "writeOnly", "discriminator", "nullable", "xml", "externalDocs", "format"},
             name) ||
         (name.starts_with('$') && name != "$defs") || name.starts_with("x-");
}

// These mean something together: of two schemas they cannot be mixed.
constexpr auto kOfLists = {"items", "prefixItems", "additionalItems"};

bool is_of_others(std::string_view name) {
  return name == "additionalProperties" || name == "unevaluatedProperties";
}

bool allows_all(const Json& schema) {
  return schema == Json(true) || (schema.is_object() && schema.as_object().empty());
}

class Merger {
 public:
  Merger(Json& root, std::size_t max_bytes) : root_(root), bytes_left_(max_bytes) {}

  // `are_names`: the members of `node` have names that users gave.
  Status walk(Json& node, const std::string& path, int depth, bool are_names = false) {
    if (depth > 4 * kMaxSchemaDepth) return too_deep(path);
    if (node.is_array()) {
      for (std::size_t i = 0; i < node.as_array().size(); ++i) {
        GLINT_TRY_STATUS(walk(node.as_array()[i], str(path, "/", i), depth + 1));
      }
    }
    if (!node.is_object()) return Ok{};
    if (!are_names && needs_merging(node)) {
      GLINT_TRY(node, merged(node, path));
    }
    if (!are_names) GLINT_TRY_STATUS(spread(node, path));
    for (auto& [name, value] : node.as_object()) {
      if (!are_names && contains({"const", "enum", "default", "examples"}, name)) continue;
      const bool is_map = !are_names && holds_schemas(name);
      GLINT_TRY_STATUS(walk(value, str(path, "/", name), depth + 1, is_map));
    }
    return Ok{};
  }

  Status merge_root() {
    if (!root_.find("$ref") && !root_.find("allOf")) return Ok{};
    GLINT_TRY(root_, merged(Json(root_), ""));
    return Ok{};
  }

 private:
  // A schema that others are added to, and what the properties of each allow beside them.
  struct Sum {
    Json schema = Json::Object{};
    std::vector<Json> closed = {};  // say what others may be
    const std::string& path;
  };

  static bool holds_schemas(std::string_view name) {
    return contains({"properties", "patternProperties", "$defs", "definitions"}, name);
  }

  // Whether `schema` says more than its type, and that which `keyword` says.
  static bool has_more(const Json& schema, std::string_view keyword) {
    return std::ranges::any_of(schema.as_object(), [&](const Json::Member& one) {
      return one.first != keyword && !contains({"type", "$defs", "definitions"}, one.first) &&
             !is_annotation(one.first);
    });
  }

  static bool needs_merging(const Json& schema) {
    const Json* all = schema.find("allOf");
    if (!all || !all->is_array() || all->as_array().empty()) return false;
    return all->as_array().size() > 1 || has_more(schema, "allOf");
  }

  // Keywords beside alternatives hold for each of them.
  Status spread(Json& schema, const std::string& path) {
    for (const char* keyword : {"anyOf", "oneOf"}) {
      const Json* options = schema.find(keyword);
      if (!options || !options->is_array() || !has_more(schema, keyword)) continue;
      Json base = Json::Object{}, rest = Json::Object{};
      for (const auto& [name, value] : schema.as_object()) {
        const bool stays = is_annotation(name) || contains({"$defs", "definitions"}, name);
        if (name != keyword) (stays ? rest : base).set(name, value);
      }
      Json::Array all;
      for (const Json& option : options->as_array()) {
        GLINT_TRY(all.emplace_back(),
                  merged(Json::Object{{"allOf", Json::Array{base, option}}}, path));
      }
      rest.set(keyword, std::move(all));
      schema = std::move(rest);
      return Ok{};
    }
    return Ok{};
  }

  static Error too_deep(const std::string& path) {
    return schema_error(path, "the schemas of \"allOf\" are too large, or refer to themselves");
  }
  static Error differ(const std::string& path, std::string_view name) {
    return schema_error(path, str(quoted(name), " in two schemas of \"allOf\" is not supported"));
  }

  Result<Json> merged(const Json& schema, const std::string& path) {
    Sum sum{.path = path};
    GLINT_TRY_STATUS(add(schema, true, 0, sum));
    for (const Json& one : sum.closed) {
      for (const char* described : {"properties", "patternProperties"}) {
        const Json *all = sum.schema.find(described), *own = one.find(described);
        if (!all || !all->is_object()) continue;
        for (const auto& [name, value] : all->as_object()) {
          if (own && own->find(name)) continue;
          return schema_error(
              path, str("property ", quoted(name), " of one schema of \"allOf\" is not among ",
                        "those of another, which allows no others"));
        }
      }
    }
    return std::move(sum.schema);
  }

  // `is_outer`: it holds the "allOf", so that its "unevaluatedProperties" are those of all.
  Status add(const Json& schema, bool is_outer, int depth, Sum& sum) {
    if (schema == Json(true)) return Ok{};
    if (!schema.is_object())
      return schema_error(sum.path, str("\"allOf\" holds ", cut_text(dump_json(schema), 80),
                                        ", which no value fits"));
    const std::size_t bytes = dump_json(schema).size();
    if (depth > kMaxSchemaDepth || bytes > bytes_left_) return too_deep(sum.path);
    bytes_left_ -= bytes;
    for (const char* name : kOfLists) {
      const auto has = [&](const Json& one) {
        return std::ranges::any_of(kOfLists, [&](const char* other) { return one.find(other); });
      };
      const Json *before = sum.schema.find(name), *now = schema.find(name);
      const bool same = before && now ? *before == *now : before == now;
      if (has(sum.schema) && has(schema) && !same) return differ(sum.path, name);
    }
    for (const auto& [name, value] : schema.as_object()) {
      const bool of_all = is_outer && name == "unevaluatedProperties";
      if (is_of_others(name) && !of_all && !allows_all(value)) sum.closed.push_back(schema);
    }
    for (const auto& [name, value] : schema.as_object()) {
      if (name == "$ref") {
        const bool is_here = value.is_string() && value.as_string().starts_with('#');
        const Json* target = is_here ? follow_pointer(root_, value.as_string().substr(1)) : nullptr;
        if (!target)
          return schema_error(sum.path, str("there is no ", cut_text(dump_json(value), 80),
                                            " in this schema to refer to"));
        GLINT_TRY_STATUS(add(*target, false, depth + 1, sum));
      } else if (name == "allOf" && value.is_array()) {
        for (const Json& one : value.as_array()) {
          GLINT_TRY_STATUS(add(one, false, depth + 1, sum));
        }
      } else {
        GLINT_TRY_STATUS(add_keyword(name, value, sum));
      }
    }
    return Ok{};
  }

  static Status add_keyword(const std::string& name, const Json& value, Sum& sum) {
    const Json* before = sum.schema.find(name);
    if (!before || (is_of_others(name) && allows_all(*before))) {
      sum.schema.set(name, value);
      return Ok{};
    }
    if (*before == value || is_annotation(name)) return Ok{};
    if (is_of_others(name) && allows_all(value)) return Ok{};
    if (name == "required" && before->is_array() && value.is_array()) {
      Json::Array names = before->as_array();
      for (const Json& one : value.as_array())
        if (!contains(names, one)) names.push_back(one);
      sum.schema.set(name, std::move(names));
      return Ok{};
    }
    if (!holds_schemas(name) || !before->is_object() || !value.is_object())
      return differ(sum.path, name);
    Json all = *before;
    for (const auto& [key, schema] : value.as_object()) {
      const Json* one = all.find(key);
      if (one && *one == schema) continue;
      all.set(key, one ? Json(Json::Object{{"allOf", Json::Array{*one, schema}}}) : schema);
    }
    sum.schema.set(name, std::move(all));
    return Ok{};
  }

  Json& root_;
  std::size_t bytes_left_;
};

}  // namespace

Status merge_all_of(Json& root, std::size_t max_bytes) {
  return Merger(root, max_bytes).walk(root, "", 0);
}

Status merge_root(Json& root, std::size_t max_bytes) {
  return Merger(root, max_bytes).merge_root();
}

}  // namespace glint
