#include "hub/hub_client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/parse_number.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr double kLookSeconds = 0.05;  // for an interruption
constexpr double kMaxDelay = 300;
constexpr int kMaxRedirections = 8;
constexpr std::size_t kMaxPages = 10'000;
constexpr std::size_t kMaxListing = std::size_t{256} << 20;

// The address of `rel="next"` in a Link header, or nothing.
std::string next_page(std::string_view link) {
  for (const std::string_view part : split(link, ',')) {
    const std::size_t begin = part.find('<'), end = part.find('>');
    if (begin == part.npos || end == part.npos || end < begin) continue;
    if (part.find("rel=\"next\"", end) != part.npos)
      return std::string(part.substr(begin + 1, end - begin - 1));
  }
  return "";
}

std::string percent_encoded_slashes(const std::string& revision) {
  std::string out;
  for (const char c : revision) out += c == '/' ? std::string("%2F") : std::string(1, c);
  return out;
}

}  // namespace

bool is_worth_a_retry(int status) {
  return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

Result<std::string> redirection(const std::string& url, const HttpResponse& response, int count) {
  GLINT_TRY(std::string next, resolve_url(url, std::string(response.header("location"))));
  if (count > kMaxRedirections)
    return invalid("the hub leads from one address to the next without an end");
  if (url.starts_with("https://") && !next.starts_with("https://"))
    return invalid("the hub leads from https to " + quoted(next));
  return next;
}

Error interruption() { return unavailable("interrupted"); }

Error refusal(const HttpResponse& response, const std::string& doing) {
  const std::string_view message = response.header("x-error-message");
  const std::string words = message.empty() ? "" : ": " + quoted(message, 300);
  const std::string status = str(doing, ": the hub answers ", response.status, words);
  if (response.status == 401 || response.status == 403)
    return invalid(status +
                   "; it may be private or gated: ask for access on its page, and set HF_TOKEN");
  if (response.status == 404)
    return not_found(status + "; look at its name and revision, or set HF_TOKEN if it is private");
  return unavailable(status);
}

HubClient::HubClient(HubOptions options, std::string base, std::string origin)
    : options_(std::move(options)),
      base_(std::move(base)),
      origin_(std::move(origin)),
      http_(origin_, {.read_seconds = 60,
                      .max_body_bytes = kMaxListing,
                      .ca_file = options_.ca_file,
                      .ca_option = options_.ca_option,
                      .use_proxy = true,
                      .buffer_bytes = 256 << 10,
                      .max_connections = options_.connections}) {}

Result<HubClient> HubClient::open(HubOptions options) {
  GLINT_TRY(const ServerUrl url, parse_server_url(options.endpoint).in("the hub (HF_ENDPOINT)"));
  std::string base = url.origin + url.path;
  while (base.ends_with('/')) base.pop_back();
  return HubClient(std::move(options), std::move(base), url.origin);
}

bool HubClient::is_hub(const std::string& url) const {
  const Result<ServerUrl> parsed = parse_server_url(url);
  return parsed.ok() && parsed.value().origin == origin_;
}

HttpHeaders HubClient::headers_for(const std::string& url) const {
  HttpHeaders out = {{"user-agent", "glint"}};
  if (!options_.token.empty() && is_hub(url))
    out.emplace_back("authorization", "Bearer " + options_.token);
  return out;
}

double HubClient::delay(int attempt, const HttpResponse* answer) const {
  const std::string_view after = answer ? answer->header("retry-after") : "";
  if (const int seconds = parse_number<int>(after).value_or(-1); seconds >= 0)
    return std::min<double>(seconds, kMaxDelay);
  return std::min(options_.retry_seconds * static_cast<double>(1 << std::clamp(attempt - 1, 0, 5)),
                  kMaxDelay);
}

// One request, ended by an interruption.
Result<HttpResponse> HubClient::ask(const std::string& url) {
  std::optional<Result<HttpResponse>> out;
  const HttpClient::Id id = http_.start(
      {.target = url, .headers = headers_for(url), .on_done = [&out](Result<HttpResponse> answer) {
         out = std::move(answer);
       }});
  const std::function<void()> look = [&] {
    if (out) return;
    if (!interrupted()) return http_.after(kLookSeconds, look);
    http_.cancel(id);
    out = interruption();
  };
  look();
  http_.run();
  return std::move(*out);
}

Result<HttpResponse> HubClient::get(std::string url, const std::string& doing) {
  for (int attempt = 1, redirections = 0;; ++attempt) {
    Result<HttpResponse> answer = ask(url);
    if (interrupted()) return interruption();
    if (answer.ok() &&
        answer.value().status / 100 == 3) {  // a repository that has another name now
      GLINT_TRY(url, redirection(url, answer.value(), ++redirections).in(doing));
      continue;
    }
    if (answer.ok() && answer.value().status == 200) return answer;
    // Nobody there is no passing trouble: machines without a network should say so at once.
    const bool again = !answer.ok() ? answer.error().code == ErrorCode::kUnavailable &&
                                          !answer.error().message.starts_with("cannot reach")
                                    : is_worth_a_retry(answer.value().status);
    if (!again || attempt >= options_.max_attempts) {
      if (answer.ok()) return refusal(answer.value(), doing);
      return std::move(answer).take_error().in(doing);
    }
    double left = delay(attempt, answer.ok() ? &answer.value() : nullptr);
    const std::function<void()> wait = [&] {
      const double step = std::min(left, kLookSeconds);
      left -= step;
      if (step > 0 && !interrupted()) http_.after(step, wait);
    };
    wait();
    http_.run();
  }
}

Result<Json> HubClient::get_json(const std::string& url, const std::string& doing,
                                 std::string* next) {
  GLINT_TRY(const HttpResponse answer, get(url, doing));
  if (next) *next = next_page(answer.header("link"));
  Result<Json> json = parse_json(answer.body);
  if (!json.ok()) return std::move(json).in(doing + ": what the hub answers is no JSON");
  return json;
}

Result<HubListing> HubClient::list(const Repository& repository) {
  const std::string doing =
      str(repository.type, " ", repository.id, " at revision ", quoted(repository.revision));
  HubListing out = {.commit = repository.revision};
  if (!is_commit(out.commit)) {
    const std::string target =
        repository.api() + "/revision/" + percent_encoded_slashes(repository.revision);
    GLINT_TRY(const Json info, get_json(url_of(target), doing, nullptr));
    const Json* sha = info.find("sha");
    if (!sha || !sha->is_string() || !is_commit(sha->as_string()))
      return invalid(doing + ": the hub names no commit; is HF_ENDPOINT a Hugging Face hub?");
    out.commit = sha->as_string();
  }
  std::string url = url_of(repository.api() + "/tree/" + out.commit + "?recursive=true");
  for (std::size_t page = 0; !url.empty(); ++page) {
    if (page == kMaxPages) return invalid(doing + ": the hub's listing of files does not end");
    std::string next;
    GLINT_TRY(const Json json, get_json(url, doing, &next));
    GLINT_TRY(std::vector<HubFile> files, read_tree(json).in(doing));
    out.files.insert(out.files.end(), files.begin(), files.end());
    if (next.starts_with("/")) next = origin_ + next;
    url = next;
  }
  return out;
}

}  // namespace glint
