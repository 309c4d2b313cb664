// Expressions in answers: whether two are equal. Text of a model is parsed and counted with, never
// run: what it costs is bounded by its length.
//
// + - * / ^ **, brackets, decimal numbers, one-letter variables, also Greek ones, pi, sqrt(x),
// ln(x), products without a sign (2x, x2, 3sqrt(2)). Powers bind to the right, and tighter than a
// minus before them.
#pragma once

#include <string_view>

namespace glint {

// Whether a - b is zero for all values of the variables. Without roots, pi, logarithms and powers
// of other than whole numbers this is decided in residues of two large primes: wrong with a chance
// below 1e-15. With them, by complex numbers at several points, to nine digits: answers that agree
// so far but not exactly count as equal, which is where this can differ from a computer algebra
// system; one may also fail to see an equality that is found here.
//
// False where either cannot be read, has no value (a division by zero), is longer than 1,000
// characters or nested more than 50 deep. As the grader that this follows: false if both together
// have more than two different letters (beside sqrt), an exponent in brackets or braces, of two or
// more digits, or a tower of exponents.
bool equal_expressions(std::string_view a, std::string_view b);

}  // namespace glint
