// Renders templates for template_oracle.py: a line {"source": TEXT, "variables": {...}} on stdin
// gives a line
// {"text": TEXT} or {"error": TEXT} on stdout.
#include <iostream>
#include <string>

#include "base/json.h"
#include "text/template/jinja/template.h"

namespace {

glint::Result<std::string> answer(const std::string& line) {
  GLINT_TRY(const glint::Json request, glint::parse_json(line));
  const glint::Json* source = request.find("source");
  const glint::Json* variables = request.find("variables");
  if (!source || !source->is_string() || !variables)
    return glint::invalid("source and variables are wanted");
  GLINT_TRY(const auto parsed, glint::jinja::Template::parse(source->as_string()));
  return parsed.render(*variables);
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const glint::Result<std::string> text = answer(line);
    glint::Json reply;
    reply.set(text.ok() ? "text" : "error",
              glint::Json(text.ok() ? text.value() : text.error().message));
    std::cout << glint::dump_json(reply) << "\n" << std::flush;
  }
}
