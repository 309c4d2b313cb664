#include "net/request_target.h"

#include <algorithm>

#include "base/str.h"
#include "base/utf8.h"

namespace glint {
namespace {

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

struct HostPort {
  std::string_view host, port;  // IPv6 without brackets; port empty if there is none
  bool ok = false;
};

HostPort split_authority(std::string_view text) {
  HostPort out;
  if (!text.empty() && text[0] == '[') {
    const std::size_t end = text.find(']');
    if (end == text.npos) return out;
    out.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    out.ok = !out.host.empty() && std::all_of(out.host.begin(), out.host.end(), [](char c) {
      return hex_digit(c) >= 0 || c == ':' || c == '.' || c == '%' || is_alnum(c);
    });
  } else {
    out.host = text.substr(0, text.find(':'));
    text.remove_prefix(out.host.size());
    out.ok = !out.host.empty() && std::all_of(out.host.begin(), out.host.end(), [](char c) {
      return is_alnum(c) || std::string_view("-._~!$&'()*+,;=%").find(c) != std::string_view::npos;
    });
  }
  if (text.empty()) return out;
  out.port = text.substr(1);
  out.ok = out.ok && text[0] == ':' && out.port.size() <= 5 &&
           std::all_of(out.port.begin(), out.port.end(), is_digit);
  return out;
}

// %41 -> A. Fails on an escape that is not two hex digits.
Result<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low < 0) {
      return invalid(str("the escape ", quoted(text.substr(i, 3)), " is not % and two hex digits"));
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace

bool is_authority(std::string_view text) { return split_authority(text).ok; }

Result<RequestTarget> parse_target(std::string_view target) {
  RequestTarget out;
  if (target == "*") {
    out.path = "*";
    return out;
  }
  if (target.find('#') != target.npos)
    return invalid("the target has a fragment: # is not sent to servers");
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (lower(target.substr(0, scheme.size())) != scheme) continue;
    target.remove_prefix(scheme.size());
    out.authority = target.substr(0, target.find_first_of("/?"));
    if (!is_authority(out.authority)) {
      return invalid(str("the target names the host ", quoted(out.authority), ", which is none"));
    }
    target.remove_prefix(out.authority.size());
    if (target.empty() || target[0] == '?') {
      out.path = "/";
      out.query = target.substr(target.empty() ? 0 : 1);
      return out;
    }
  }
  if (target.empty() || target[0] != '/') {
    return invalid(str("the target ", quoted(target), " does not begin with /"));
  }
  const std::size_t question = std::min(target.find('?'), target.size());
  out.query = target.substr(std::min(question + 1, target.size()));
  GLINT_TRY(out.path, percent_decode(target.substr(0, question)));
  if (has_control(out.path)) return invalid("the path has control characters");
  if (!is_valid_utf8(out.path)) return invalid("the path is not UTF-8");
  return out;
}

}  // namespace glint
