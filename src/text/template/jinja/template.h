// Jinja templates as transformers renders chat templates: jinja2's ImmutableSandboxedEnvironment
// with trim_blocks, lstrip_blocks, loop controls, {% generation %}, its own tojson, raise_exception
// and strftime_now. A text that this writes is jinja2's, byte for byte.
//
// It is the part of jinja2 that the templates of served models are written in. Any other tag,
// filter, test, method, function or operator that jinja2 has is refused by its name, when the
// template is read. When it is run, if it is: `count` of lists and tuples, methods of what `safe`
// made, the variables of a macro (caller, kwargs, varargs), integer arithmetic beyond 64 bits.
//
// One difference is not refused: a variable given to render() that an inner scope (a loop's body, a
// macro, the body of a set block) reads, and that the scope around it assigns further down without
// having read it, is undefined in jinja2 and here still what was given.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/template/jinja/budget.h"

namespace glint::jinja {

struct TemplateTree;

struct RenderOptions {
  Limits limits = {};
  // The time that strftime_now shows as local time; default: the clock's.
  std::optional<std::time_t> now = {};
};

class Template {
 public:
  // Fails with "line 3, column 14: ..." where jinja2 would refuse to compile.
  static Result<Template> parse(std::string_view source);

  // Renders with the members of `variables` (an object) as variables. Thread-safe.
  Result<std::string> render(const Json& variables, const RenderOptions& options = {}) const;

 private:
  explicit Template(std::shared_ptr<const TemplateTree> tree) : tree_(std::move(tree)) {}

  std::shared_ptr<const TemplateTree> tree_;
};

}  // namespace glint::jinja
