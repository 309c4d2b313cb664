// HubClient: what a Hugging Face hub says about a repository, and how it is asked: the token goes
// to the hub alone, what fails for now is tried again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hub/repository.h"
#include "net/http_client.h"

namespace glint {

struct HubOptions {
  std::string endpoint = "https://huggingface.co";
  std::string token = {};
  std::string ca_file = {};
  std::string ca_option = {};                        // as of HttpClientOptions
  int connections = 8;                               // at once
  std::int64_t part_bytes = std::int64_t{64} << 20;  // of one request
  int max_attempts = 6;                              // in a row without a byte
  double retry_seconds = 1;                          // before the second attempt; then doubled
  std::function<bool()> interrupted = {};            // looked at often
};

struct HubListing {
  std::string commit;
  std::vector<HubFile> files = {};
};

class HubClient {
 public:
  // Fails on an endpoint that is no URL.
  static Result<HubClient> open(HubOptions options);

  // The files of the repository's revision.
  Result<HubListing> list(const Repository& repository);

  const HubOptions& options() const { return options_; }
  HttpClient& http() { return http_; }
  std::string url_of(const std::string& target) const { return base_ + target; }
  bool is_hub(const std::string& url) const;
  HttpHeaders headers_for(const std::string& url) const;
  bool interrupted() const { return options_.interrupted && options_.interrupted(); }

  // How long to wait before attempt `attempt` + 1: as the answer says, if it does.
  double delay(int attempt, const HttpResponse* answer) const;

 private:
  HubClient(HubOptions options, std::string base, std::string origin);
  Result<HttpResponse> get(std::string url, const std::string& doing);
  Result<Json> get_json(const std::string& url, const std::string& doing, std::string* next);
  Result<HttpResponse> ask(const std::string& url);

  HubOptions options_;
  std::string base_, origin_;
  HttpClient http_;
};

bool is_worth_a_retry(int status);

// Where an answer 3xx to `url` leads; fails after `count` of them if that is too often, and where
// it leaves https.
Result<std::string> redirection(const std::string& url, const HttpResponse& response, int count);

// One sentence: the hub's own words, and what to do about them.
Error refusal(const HttpResponse& response, const std::string& doing);
Error interruption();

}  // namespace glint
