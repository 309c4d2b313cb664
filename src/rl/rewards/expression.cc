#include "rl/rewards/expression.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/str.h"
#include "base/utf8.h"

namespace glint {
namespace {

constexpr std::size_t kMaxLength = 1000;
constexpr int kMaxDepth = 50;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Numbers modulo a prime; none where there is no value, or none that residues can tell.
template <std::uint64_t kPrime>
struct Residue {
  std::uint64_t value = 0;

  static std::uint64_t times(std::uint64_t a, std::uint64_t b) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(a) * b % kPrime);
  }
  static std::uint64_t power(std::uint64_t base, std::uint64_t exponent) {
    std::uint64_t result = 1;
    for (; exponent != 0; exponent >>= 1, base = times(base, base)) {
      if (exponent & 1) result = times(result, base);
    }
    return result;
  }

  static std::optional<Residue> number(std::string_view digits) {
    std::uint64_t value = 0, scale = 1;
    bool after_point = false;
    for (const char c : digits) {
      if (c == '.') {
        after_point = true;
        continue;
      }
      value = (times(value, 10) + static_cast<std::uint64_t>(c - '0')) % kPrime;
      if (after_point) scale = times(scale, 10);
    }
    return Residue{times(value, power(scale, kPrime - 2))};
  }
  static Residue variable(char name, int point) {
    const auto bits =
        philox(7, static_cast<std::uint64_t>(name), static_cast<std::uint64_t>(point));
    return {(std::uint64_t{bits[0]} << 32 | bits[1]) % kPrime};
  }
  static std::optional<Residue> pi() { return {}; }
  static std::optional<Residue> root(const Residue&) { return {}; }
  static std::optional<Residue> logarithm(const Residue&) { return {}; }
  static std::optional<Residue> pow(const Residue& base, const Residue&, std::optional<int> whole) {
    if (!whole) return {};
    if (*whole >= 0) return Residue{power(base.value, static_cast<std::uint64_t>(*whole))};
    if (base.value == 0) return {};
    return Residue{power(power(base.value, kPrime - 2), static_cast<std::uint64_t>(-*whole))};
  }
  Residue operator+(const Residue& y) const { return {(value + y.value) % kPrime}; }
  Residue operator-() const { return {(kPrime - value) % kPrime}; }
  Residue operator*(const Residue& y) const { return {times(value, y.value)}; }
  std::optional<Residue> over(const Residue& y) const {
    if (y.value == 0) return {};
    return Residue{times(value, power(y.value, kPrime - 2))};
  }
  bool is_zero() const { return value == 0; }
};

// Complex numbers, and how large the numbers were that they were made of.
struct Rounded {
  std::complex<double> value = 0;
  double scale = 0;

  static Rounded of(std::complex<double> value, double scale) {
    return {value, std::max(scale, std::abs(value))};
  }
  static std::optional<Rounded> number(std::string_view digits) {
    double value = 0, place = 1;
    bool after_point = false;
    for (const char c : digits) {
      if (c == '.') {
        after_point = true;
        continue;
      }
      value = value * 10 + (c - '0');
      if (after_point) place *= 10;
    }
    return of(value / place, 0);
  }
  static Rounded variable(char name, int point) {
    Random random(7 + static_cast<std::uint64_t>(point), static_cast<std::uint64_t>(name));
    const double real = random.uniform() * 4 - 2;
    return of({real, random.uniform() * 4 - 2}, 0);
  }
  static std::optional<Rounded> pi() { return of(3.14159265358979323846, 0); }
  static std::optional<Rounded> root(const Rounded& x) {
    return of(std::sqrt(x.value), std::sqrt(x.scale));
  }
  static std::optional<Rounded> logarithm(const Rounded& x) {
    if (x.value == 0.0) return {};
    return of(std::log(x.value), x.scale / std::abs(x.value));
  }
  static std::optional<Rounded> pow(const Rounded& base, const Rounded& exponent,
                                    std::optional<int> whole) {
    const double times = std::abs(exponent.value);
    const double size = std::pow(std::max(base.scale, 1.0), times);
    if (whole) return of(std::pow(base.value, *whole), size);
    if (base.value == 0.0) return {};
    return of(std::pow(base.value, exponent.value), size);
  }
  Rounded operator+(const Rounded& y) const { return of(value + y.value, scale + y.scale); }
  Rounded operator-() const { return {-value, scale}; }
  Rounded operator*(const Rounded& y) const { return of(value * y.value, scale * y.scale); }
  std::optional<Rounded> over(const Rounded& y) const {
    const double size = std::abs(y.value);
    if (size <= 1e-12 * y.scale) return {};  // a zero, but for rounding
    return of(value / y.value, scale / size * std::max(y.scale / size, 1.0));
  }
  // Not of what is too large to tell.
  bool is_zero() const { return std::isfinite(scale) && std::abs(value) <= 1e-12 * scale; }
};

// Reads a text and computes its value in one go.
template <class Number>
class Reader {
 public:
  using Value = std::optional<Number>;

  Reader(std::string_view text, int point) : text_(text), point_(point) {}

  // Nothing if the text is no expression, or has no value.
  Value read() {
    Value value = sum(0);
    return at_ == text_.size() ? value : Value();
  }

 private:
  bool take(std::string_view piece) {
    if (text_.substr(at_, piece.size()) != piece) return false;
    at_ += piece.size();
    return true;
  }
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  Value sum(int depth) {
    if (depth > kMaxDepth) return {};
    Value value = product(depth);
    while (value && (next() == '+' || next() == '-')) {
      const bool minus = text_[at_++] == '-';
      const Value right = product(depth);
      if (!right) return {};
      value = *value + (minus ? -*right : *right);
    }
    return value;
  }

  Value product(int depth) {
    Value value = signed_power(depth);
    while (value) {
      if (text_.substr(at_, 2) == "**") return {};  // a power of nothing
      if (take("*")) {
        const Value right = signed_power(depth);
        if (!right) return {};
        value = *value * *right;
      } else if (take("/")) {
        const Value right = signed_power(depth);
        if (!right) return {};
        value = value->over(*right);
      } else if (is_letter(next()) || is_digit(next()) || next() == '(') {
        const Value right = power(depth);
        if (!right) return {};
        value = *value * *right;
      } else {
        break;
      }
    }
    return value;
  }

  Value signed_power(int depth) {
    bool minus = false;
    for (; next() == '-' || next() == '+'; ++at_) minus ^= next() == '-';
    const Value value = power(depth);
    return value && minus ? Value(-*value) : value;
  }

  Value power(int depth) {
    if (depth > kMaxDepth) return {};
    const Value base = atom(depth);
    if (!base || !(take("**") || take("^"))) return base;
    const std::size_t begin = at_;
    const Value exponent = signed_power(depth + 1);
    if (!exponent) return {};
    return Number::pow(*base, *exponent, whole(text_.substr(begin, at_ - begin)));
  }

  // An exponent of at most four digits, with a sign.
  static std::optional<int> whole(std::string_view text) {
    int sign = 1, value = 0;
    for (; !text.empty() && (text[0] == '-' || text[0] == '+'); text.remove_prefix(1)) {
      if (text[0] == '-') sign = -sign;
    }
    if (text.empty() || text.size() > 4) return {};
    for (const char c : text) {
      if (!is_digit(c)) return {};
      value = value * 10 + (c - '0');
    }
    return sign * value;
  }

  Value atom(int depth) {
    if (take("(")) {
      const Value value = sum(depth + 1);
      return take(")") ? value : Value();
    }
    if (is_digit(next()) || next() == '.') {
      const std::size_t begin = at_;
      int points = 0, digits = 0;
      for (; is_digit(next()) || next() == '.'; ++at_) ++(next() == '.' ? points : digits);
      if (points > 1 || digits == 0) return {};
      return Number::number(text_.substr(begin, at_ - begin));
    }
    if (take("pi")) return Number::pi();
    const bool root = take("sqrt");
    if (root || take("ln")) {
      if (next() != '(') return {};
      const Value inside = atom(depth);
      if (!inside) return {};
      return root ? Number::root(*inside) : Number::logarithm(*inside);
    }
    if (is_letter(next())) return Number::variable(text_[at_++], point_);
    return {};
  }

  std::string_view text_;
  int point_;
  std::size_t at_ = 0;
};

template <class Number>
std::optional<bool> equal_at(std::string_view a, std::string_view b, int point) {
  const std::optional<Number> x = Reader<Number>(a, point).read();
  if (!x) return {};
  const std::optional<Number> y = Reader<Number>(b, point).read();
  if (!y) return {};
  return (*x + -*y).is_zero();
}

// Expressions that the original grader compares at all.
bool may_compare(std::string_view text) {
  std::set<char> letters;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 4) == "sqrt")
      i += 3;
    else if (text.substr(i, 4) == "frac")
      i += 3;
    else if (is_letter(text[i]))
      letters.insert(text[i]);
  }
  if (letters.size() > 2) return false;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != '^') continue;
    std::size_t digits = 0;
    while (i + 1 + digits < text.size() && is_digit(text[i + 1 + digits])) ++digits;
    const char after = i + 1 + digits < text.size() ? text[i + 1 + digits] : '\0';
    if (text[i + 1] == '{' || text[i + 1] == '(' || digits > 1) return false;
    if (digits > 0 && after == '^') return false;
  }
  return true;
}

// With letters of Greek as capitals, which no variable is; `greek` holds those that there are.
std::optional<std::string> with_capitals(std::string_view text, std::vector<char32_t>& greek) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t letter = next_code_point(text, at);
    if (letter < 0x80) {
      if (letter >= 'A' && letter <= 'Z') return {};
      out += static_cast<char>(letter);
      continue;
    }
    if (letter < U'\u03b1' || letter > U'\u03f5') return {};
    if (letter == U'\u03c0') {
      out += "pi";
      continue;
    }
    const auto found = std::ranges::find(greek, letter);
    const auto number = found - greek.begin();
    if (number == 26) return {};
    if (found == greek.end()) greek.push_back(letter);
    out += static_cast<char>('A' + number);
  }
  return out;
}

}  // namespace

bool equal_expressions(std::string_view given_a, std::string_view given_b) {
  if (given_a.size() > kMaxLength || given_b.size() > kMaxLength) return false;
  std::vector<char32_t> greek;
  const auto a_read = with_capitals(trimmed(given_a), greek);
  const auto b_read = with_capitals(trimmed(given_b), greek);
  if (!a_read || !b_read || !may_compare(str(*a_read, '-', *b_read))) return false;
  const std::string_view a = *a_read, b = *b_read;
  constexpr std::uint64_t kFirst = 2305843009213693951, kSecond = 1000000000000000003;
  const auto first = equal_at<Residue<kFirst>>(a, b, 0);
  const auto second = equal_at<Residue<kSecond>>(a, b, 1);
  if (first && second) return *first && *second;
  for (int point = 0; point < 5; ++point) {
    if (equal_at<Rounded>(a, b, point) != std::optional(true)) return false;
  }
  return true;
}

}  // namespace glint
