// Normal forms of answers in LaTeX or plain text: two answers that have the same are the same. Each
// is that of a known grader, step for step, so that rewards compare with other trainers'.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace glint {

// The strict one, of the MATH data set's own grader: strings as they stand, with fractions, roots,
// units on the right, degrees and one leading `x =` written one way. 1/2 and 2/4 stay different.
std::string mathd_form(std::string_view answer);

// The loose one, which comes before comparing as expressions: LaTeX becomes plain text, units and
// blanks go, capitals become small, integers lose their thousands commas and zeros after the point.
// Integers keep all digits, where the original rounds to a double; a fraction's parts get brackets
// where they need them, which the original forgets.
std::string plain_form(std::string_view answer);

// The elements of a tuple, set or interval in plain form; anything else is one element.
std::vector<std::string> tuple_elements(std::string_view plain);

// Whether a text in plain form is an integer, within 1e-7.
bool is_integer(std::string_view plain);
// -?digits/digits, with a character after either number at most, as the original has it.
bool is_fraction(std::string_view plain);

// The form that DAPO's grader compares: the answer after its last '=', without articles, units,
// \text, \boxed and dollars, shorthand fractions and roots spelled out.
std::string dapo_form(std::string_view answer);

// Lower case, no punctuation, no articles, single blanks: the words that F1 counts.
std::vector<std::string> counted_words(std::string_view text);

}  // namespace glint
