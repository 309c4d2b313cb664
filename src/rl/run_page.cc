#include "rl/run_page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/ceil_div.h"
#include "base/page_style.h"
#include "base/str.h"
#include "base/svg.h"

namespace glint {
namespace {

constexpr std::string_view kOwnStyle = R"css(
.scroll { overflow-x: auto; }
.samples { table-layout: fixed; }
.samples td { min-width: 200px; white-space: pre-wrap; font: 13px/1.45 ui-monospace, monospace; }
.samples td b { display: block; font: 600 13px system-ui, sans-serif; }
.samples .prompt td { border-bottom: 0; color: var(--muted); padding: 16px 0 6px; }
)css";

constexpr std::size_t kMostPoints = 160;  // of a curve
constexpr std::size_t kMostColumns = 4;   // evaluations side by side
constexpr std::size_t kMostKept = 16;     // of which these columns are chosen, for long runs
constexpr std::size_t kMostRounds = 3;    // whose best and worst answers are shown
constexpr std::size_t kMostRows = 50;     // of the table of numbers

std::int64_t integer(const Json& line, std::string_view name) {
  const Json* const value = line.find(name);
  return value && value->is_int() ? value->as_int() : 0;
}
double number(const Json& line, std::string_view name) {
  const Json* const value = line.find(name);
  return value && value->is_number() ? value->as_double() : 0;
}
std::string text(const Json& line, std::string_view name) {
  const Json* const value = line.find(name);
  return value && value->is_string() ? value->as_string() : std::string();
}

// Texts of data and models may hold control characters, and HTML none of them.
std::string shown(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_control = (byte < ' ' && c != '\n' && c != '\t' && c != '\r') || byte == 0x7f;
    out += is_control ? "\uFFFD" : std::string(1, c);
  }
  return escape_html(out);
}

// Rounds are counted from 0 in the log, and from 1 for people; an evaluation is after its round.
std::int64_t round_of(const Json& line) { return integer(line, "round") + 1; }

using Lines = std::vector<const Json*>;
Lines lines_with(const std::vector<Json>& all, std::string_view name) {
  Lines some;
  for (const Json& line : all) {
    if (line.find(name)) some.push_back(&line);
  }
  return some;
}

// A round that taught nothing has the entropy of the answers that parity compares.
std::string_view name_in(const Json& round, std::string_view name) {
  return name == "train/entropy" && !round.find(name) ? "rollout/entropy" : name;
}

double mean_of(const Lines& lines, std::string_view name, std::size_t last) {
  const std::size_t count = std::min(last, lines.size());
  double sum = 0;
  for (std::size_t i = lines.size() - count; i < lines.size(); ++i) sum += number(*lines[i], name);
  return count ? sum / static_cast<double>(count) : 0;
}

std::string figures(const Lines& rounds, const Lines& evals) {
  std::string out = "<section class=\"figures\">\n";
  const std::size_t last = std::min<std::size_t>(10, rounds.size());
  out += figure(formatted("%.3f", mean_of(rounds, "rollout/raw_reward", last)),
                str("reward, mean of ", last, " rounds"));
  if (!evals.empty()) {
    out +=
        figure(formatted("%.3f", number(*evals.front(), "eval/reward")), "reward of eval, first");
    out += figure(formatted("%.3f", number(*evals.back(), "eval/reward")), "reward of eval, last");
  }
  const double idle = mean_of(rounds, "rollout/zero_std/lowest", last) +
                      mean_of(rounds, "rollout/zero_std/highest", last);
  out += figure(formatted("%.0f %%", 100 * idle), "of groups teach nothing");
  std::int64_t compared = 0, differ = 0;
  for (const Json* const line : rounds) {
    compared += integer(*line, "parity/tokens");
    differ += integer(*line, "parity/differ");
  }
  out +=
      figure(str(with_commas(differ), " of ", with_commas(compared)), "log-probabilities differ");
  out += figure(formatted("%.1f s", mean_of(rounds, "perf/step_time", last)), "a round");
  return out + "</section>\n";
}

struct Curve {
  const char* title;
  const char* meaning;
  const char* name;
  const char* unit;
};

std::string section(const Curve& curve, Lines lines, const char* x_label) {
  std::erase_if(lines, [&](const Json* line) { return !line->find(name_in(*line, curve.name)); });
  Chart chart = {.title = curve.title, .y_label = curve.unit, .x_label = x_label};
  const std::size_t each = ceil_div(lines.size(), kMostPoints);
  for (std::size_t i = 0; i < lines.size(); i += each) {
    const std::size_t end = std::min(i + each, lines.size());
    double sum = 0;
    for (std::size_t k = i; k < end; ++k) sum += number(*lines[k], name_in(*lines[k], curve.name));
    const double value = sum / static_cast<double>(end - i);
    if (!std::isfinite(value)) continue;
    const std::int64_t first = round_of(*lines[i]), last = round_of(*lines[end - 1]);
    const std::string label = str(first);
    chart.points.push_back(
        {label, value,
         str(x_label, " ", label, last > first ? str(" to ", last) : std::string(),
             formatted(": %.4g", value))});
  }
  if (chart.points.empty()) return {};
  return page_section(curve.title, curve.meaning, svg_chart(chart));
}

constexpr Curve kEval = {"Evaluation", "Mean reward of the same prompts with the same draws.",
                         "eval/reward", "reward"};
constexpr Curve kCurves[] = {
    {"Reward", "Mean over the answers of a round: other prompts each time, so it moves by itself.",
     "rollout/raw_reward", "reward"},
    {"Groups that nobody solved",
     "All answers have the lowest reward: nothing to learn from. Easier prompts or more answers to "
     "each help.",
     "rollout/zero_std/lowest", "share of groups"},
    {"Groups that everybody solved",
     "All answers have the highest reward: nothing is left to learn.", "rollout/zero_std/highest",
     "share of groups"},
    {"Length", "Tokens of an answer, mean.", "rollout/response_len/mean", "tokens"},
    {"Cut answers",
     "The share of answers that reached the limit. They are graded as they stand; where many are "
     "cut, a larger --rollout-max-response-len helps.",
     "rollout/truncated_ratio", "share of answers"},
    {"Entropy", "Nats a token. A slow fall is what learning looks like; at 0 nothing new is tried.",
     "train/entropy", "nats"},
    {"Gradient", "Its norm before clipping.", "train/grad_norm", "norm"},
    {"Clipped ratios",
     "The share of tokens whose ratio of probabilities was clipped: 0 with one step a round.",
     "train/pg_clipfrac", "share of tokens"},
    {"Parity",
     "Log-probabilities of the engine that were compared with those of training, bit for bit. "
     "Without --parity-gate the first that differs ends the run.",
     "parity/tokens", "compared"},
    {"Time", "Seconds of a round, rollouts and training.", "perf/step_time", "s"},
};

std::string answer_cell(const Json* sample) {
  if (!sample) return "<td></td>";
  const Json* const cut = sample->find("truncated");
  return str("<td><b>reward ", formatted("%.3g", number(*sample, "reward")),
             cut && *cut == Json(true) ? ", cut" : "", "</b>", shown(text(*sample, "answer")),
             "</td>");
}

// Across all columns, above the answers.
std::string prompt_row(const Json& sample, std::size_t columns) {
  return str("<tr class=\"prompt\"><td colspan=\"", columns, "\">", shown(text(sample, "prompt")),
             "<b>", shown(str("label ", text(sample, "label"))), "</b></td></tr>\n");
}

std::string table(const std::string& head, const std::string& rows) {
  return str("<div class=\"scroll\">\n<table class=\"samples\">\n<tr>", head, "</tr>\n", rows,
             "</table>\n</div>\n");
}

// The same prompts in some evaluations: the first, the last, and those between as even as it goes.
std::string eval_samples(const std::vector<Json>& samples) {
  std::map<std::int64_t, std::map<std::int64_t, const Json*>> by_round;  // then by line
  for (const Json& sample : samples) {
    if (text(sample, "from") == "eval")
      by_round[round_of(sample)][integer(sample, "line")] = &sample;
  }
  if (by_round.empty()) return {};
  std::vector<std::int64_t> rounds, shown;
  for (const auto& [round, answers] : by_round) rounds.push_back(round);
  const std::size_t columns = std::min(kMostColumns, rounds.size());
  for (std::size_t i = 0; i < columns; ++i) {
    shown.push_back(columns == 1 ? rounds.back() : rounds[i * (rounds.size() - 1) / (columns - 1)]);
  }
  std::string head, rows;
  for (const std::int64_t round : shown) {
    head += round == 0 ? "<th>before</th>" : str("<th>after round ", round, "</th>");
  }
  for (const auto& [line, sample] : by_round.rbegin()->second) {
    rows += prompt_row(*sample, shown.size()) + "<tr>";
    for (const std::int64_t round : shown) {
      const auto& answers = by_round[round];
      const auto found = answers.find(line);
      rows += answer_cell(found == answers.end() ? nullptr : found->second);
    }
    rows += "</tr>\n";
  }
  return page_section("Answers as it learns",
                      "The first answer to the same prompts, drawn alike in each evaluation.",
                      table(head, rows));
}

// The best and the worst answer of one group, in each of the newest rounds.
std::string rollout_samples(const std::vector<Json>& samples) {
  std::map<std::int64_t, Lines, std::greater<>> by_round;
  for (const Json& sample : samples) {
    if (text(sample, "from") == "rollout") by_round[round_of(sample)].push_back(&sample);
  }
  std::string rows;
  std::size_t count = 0;
  for (const auto& [round, answers] : by_round) {
    if (answers.size() != 2 || count++ == kMostRounds) continue;
    rows += str(prompt_row(*answers[0], 2), "<tr>", answer_cell(answers[0]),
                answer_cell(answers[1]), "</tr>\n");
  }
  if (rows.empty()) return {};
  return page_section("Answers of one group",
                      "The best and the worst of answers to one prompt, in the newest rounds: the "
                      "difference is what is learned.",
                      table("<th>best</th><th>worst</th>", rows));
}

// The one that leaves the smallest gap; never the first or the last.
std::set<std::int64_t>::iterator closest_to_others(std::set<std::int64_t>& rounds) {
  auto closest = std::next(rounds.begin());
  const auto gap = [](auto at) { return *std::next(at) - *std::prev(at); };
  for (auto at = closest; std::next(at) != rounds.end(); ++at) {
    if (gap(at) < gap(closest)) closest = at;
  }
  return closest;
}

std::string numbers(const Lines& rounds) {
  std::string rows;
  const std::size_t first = rounds.size() > kMostRows ? rounds.size() - kMostRows : 0;
  for (std::size_t i = rounds.size(); i-- > first;) {
    const Json& r = *rounds[i];
    rows += str("<tr><th>", round_of(r), "</th>");
    for (const char* const name :
         {"rollout/raw_reward", "rollout/response_len/mean", "train/entropy", "train/grad_norm",
          "train/lr", "perf/step_time"}) {
      const std::string_view found = name_in(r, name);
      rows += r.find(found) ? formatted("<td>%.4g</td>", number(r, found)) : "<td></td>";
    }
    rows += "</tr>\n";
  }
  return str(
      "<section>\n<details><summary>as numbers</summary>\n<div class=\"scroll\"><table>\n"
      "<tr><th>round</th><th>reward</th><th>tokens an answer</th><th>entropy</th>"
      "<th>gradient</th><th>learning rate</th><th>seconds</th></tr>\n",
      rows, "</table></div>\n</details>\n</section>\n");
}

}  // namespace

Json sample_line(const AnswerSample& sample, std::int64_t round, bool is_eval) {
  return Json::Object{{"round", round},          {"from", is_eval ? "eval" : "rollout"},
                      {"line", sample.line},     {"prompt", sample.prompt},
                      {"label", sample.label},   {"answer", sample.answer},
                      {"reward", sample.reward}, {"truncated", sample.truncated}};
}

void keep_shown_samples(std::vector<Json>& samples) {
  std::set<std::int64_t> evals, rounds;
  for (const Json& sample : samples) {
    (text(sample, "from") == "eval" ? evals : rounds).insert(round_of(sample));
  }
  while (rounds.size() > kMostRounds) rounds.erase(rounds.begin());
  while (evals.size() > kMostKept) evals.erase(closest_to_others(evals));
  std::erase_if(samples, [&](const Json& sample) {
    return !(text(sample, "from") == "eval" ? evals : rounds).contains(round_of(sample));
  });
}

std::string to_html(const RunPage& page, const std::vector<Json>& metrics,
                    const std::vector<Json>& samples) {
  const Lines rounds = lines_with(metrics, "rollout/raw_reward");
  const Lines evals = lines_with(metrics, kEval.name);
  const std::string title = "GRPO of " + page.model;
  std::string state = str("Round ", page.rounds_done, " of ", page.rounds);
  if (page.rounds_done < page.rounds && page.seconds_left > 0) {
    state += str("; ", duration_text(page.seconds_left), " left");
  }
  const std::string refresh =
      page.refresh_seconds > 0
          ? str("<meta http-equiv=\"refresh\" content=\"", page.refresh_seconds, "\">\n")
          : "";
  std::string out = page_begin(title, kOwnStyle, refresh) + str("<p>", state, ".</p>\n");
  if (!rounds.empty()) out += figures(rounds, evals);
  out += section(kEval, evals, "after round");
  for (const Curve& curve : kCurves) out += section(curve, rounds, "round");
  out += eval_samples(samples) + rollout_samples(samples);
  if (!rounds.empty()) out += numbers(rounds);
  return str(out, kPageEnd);
}

}  // namespace glint
