// Jinja templates as transformers renders chat templates: jinja2's ImmutableSandboxedEnvironment
// with trim_blocks, lstrip_blocks, loop controls, {% generation %}, its own tojson, raise_exception
// and strftime_now. What jinja2 writes, this writes, byte for byte.
//
// Not there: tags that need other templates (extends, include, import, block), autoescape, and
// integer arithmetic beyond 64 bits (an error, never a wrong number).
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/jinja/budget.h"

namespace glint::jinja {

struct TemplateTree;

struct RenderOptions {
  Limits limits = {};
  // What strftime_now shows, in local time; default: the clock.
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
