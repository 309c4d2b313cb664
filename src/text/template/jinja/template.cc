#include "text/template/jinja/template.h"

#include "text/template/jinja/ast.h"
#include "text/template/jinja/interpreter.h"

namespace glint::jinja {
namespace {

Result<Value> to_value(Runtime& runtime, const Json& json) {
  if (json.is_null()) return Value();
  if (json.is_bool()) return Value(json.as_bool());
  if (json.is_int()) return Value(json.as_int());
  if (json.is_big_number() && json.as_big_number().is_integer())
    return Value(BigInt{json.as_big_number().text});
  if (json.is_number()) return Value(json.as_double());  // beyond all doubles: inf, as in Python
  if (json.is_string()) return runtime.make_string(json.as_string());
  const Runtime::Nesting nesting(runtime);
  GLINT_TRY_STATUS(nesting.check());
  if (json.is_array()) {
    std::vector<Value> items;
    items.reserve(json.as_array().size());
    for (const Json& item : json.as_array()) {
      GLINT_TRY(Value value, to_value(runtime, item));
      items.push_back(std::move(value));
    }
    return runtime.make_list(std::move(items));
  }
  Dict dict;
  for (const auto& [key, item] : json.as_object()) {
    GLINT_TRY(Value value, to_value(runtime, item));
    dict.set(key, Value(key), std::move(value));
  }
  return runtime.make_dict(std::move(dict));
}

}  // namespace

Result<Template> Template::parse(std::string_view source) {
  GLINT_TRY(TemplateTree tree, jinja::parse(source));
  return Template(std::make_shared<const TemplateTree>(std::move(tree)));
}

Result<std::string> Template::render(const Json& variables, const RenderOptions& options) const {
  if (!variables.is_object())
    return invalid(str("the variables of a template are an object, not ", variables.kind()));
  Runtime runtime(options.limits, options.now ? *options.now : std::time(nullptr));
  GLINT_TRY(const Value values, to_value(runtime, variables));
  Interpreter interpreter(runtime, values.as_dict());
  return interpreter.run(*tree_);
}

}  // namespace glint::jinja
