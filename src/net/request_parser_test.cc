#include "net/request_parser.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/str.h"

namespace glint {
namespace {

using Progress = RequestParser::Progress;

HttpLimits small_limits() {
  HttpLimits limits;
  limits.max_header_bytes = 1024;
  limits.max_target_bytes = 100;
  limits.max_body_bytes = 1000;
  limits.body_bound = "--max-body-mb";
  return limits;
}

// A parser's answer to `text`: "" while it needs more, "GET /path body|" for each request, or
// "400 reason".
std::string outcome(std::string_view text, std::size_t piece = std::string::npos) {
  RequestParser parser(small_limits());
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t n = std::min(piece, text.size() - at);
    parser.append(text.substr(at, n));
    at += n;
    Progress progress = Progress::kNeedMore;
    while ((progress = parser.parse()) == Progress::kRequest) {
      const HttpRequest request = parser.take();
      out += request.method + " " + request.path + " " + request.body + "|";
    }
    if (progress == Progress::kRefused) return out + str(parser.status(), " ", parser.reason());
  }
  return out;
}

std::string get(std::string_view fields, std::string_view line = "GET / HTTP/1.1") {
  return str(line, "\r\nhost: a\r\n", fields, "\r\n");
}

int status(std::string_view text) {
  const std::string out = outcome(text);
  return out.empty() || out[0] < '0' || out[0] > '9' ? 0 : std::stoi(out);
}

const std::string kChunked = "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(RequestParser, reads_requests_one_after_another_however_they_are_cut) {
  const std::string text =
      "\r\n" + get("Content-Length: 5\r\nX: \t y  z \r\n", "POST /a?q HTTP/1.1") + "hello" +
      get("") + kChunked + "3\r\nabc\r\n00A;ext=v\r\n0123456789\r\n0\r\n\r\n" +
      "GET /old HTTP/1.0\r\n\r\n";
  const std::string expected = "POST /a hello|GET / |POST /c abc0123456789|GET /old |";
  EXPECT_EQ(outcome(text), expected);
  for (std::size_t piece = 1; piece < 40; ++piece)
    EXPECT_EQ(outcome(text, piece), expected) << piece;
}

TEST(RequestParser, fields_are_trimmed_and_their_names_in_lower_case) {
  RequestParser parser(small_limits());
  parser.append("PATCH /p?a=1&b HTTP/1.1\r\nHoSt: h:1\r\nX-Key: \t a  b\t \r\nEmpty:\r\n\r\n");
  ASSERT_EQ(parser.parse(), Progress::kRequest);
  EXPECT_TRUE(parser.keep_alive());
  const HttpRequest request = parser.take();
  EXPECT_EQ(request.method, "PATCH");
  EXPECT_EQ(request.query, "a=1&b");
  const HttpHeaders expected = {{"host", "h:1"}, {"x-key", "a  b"}, {"empty", ""}};
  EXPECT_EQ(request.headers, expected);
  EXPECT_FALSE(parser.started());
}

TEST(RequestParser, keep_alive_as_the_version_and_the_connection_field_say) {
  const auto keeps = [](const std::string& text) {
    RequestParser parser(small_limits());
    parser.append(text);
    EXPECT_EQ(parser.parse(), Progress::kRequest) << parser.reason();
    return parser.keep_alive();
  };
  EXPECT_TRUE(keeps(get("")));
  EXPECT_FALSE(keeps(get("Connection: Close\r\n")));
  EXPECT_FALSE(keeps(get("Connection: x, close\r\n")));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(RequestParser, smuggling_is_refused) {
  const std::vector<std::pair<std::string, int>> cases = {
      {get("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), 400},
      {get("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"), 400},
      {get("Content-Length: 3\r\nContent-Length: 4\r\n"), 400},
      {get("Content-Length: 3\r\nContent-Length: 3\r\n"), 400},
      {get("Content-Length: 3, 3\r\n"), 400},
      {get("Content-Length: 3,4\r\n"), 400},
      {get("Content-Length: +3\r\n"), 400},
      {get("Content-Length: -3\r\n"), 400},
      {get("Content-Length: 0x3\r\n"), 400},
      {get("Content-Length: 3 3\r\n"), 400},
      {get("Content-Length:\r\n"), 400},
      {get("Content-Length: 99999999999999999999999\r\n"), 400},
      {get("Content-Length : 3\r\n"), 400},
      {get("Transfer-Encoding : chunked\r\n"), 400},
      {get("Transfer-Encoding: chunked, chunked\r\n"), 501},
      {get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
      {get("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"), 501},
      {get("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"), 501},
      {get("Transfer-Encoding: gzip, chunked\r\n"), 501},
      {get("Transfer-Encoding: identity\r\n"), 501},
      {get("Transfer-Encoding: xchunked\r\n"), 501},
      {get("Transfer-Encoding: chunked;x=1\r\n"), 501},
      {get("Transfer-Encoding:\r\n"), 501},
      {get("Transfer-Encoding: \x0b"
           "chunked\r\n"),
       400},
      {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"GET / HTTP/1.1\nHost: a\n\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\n\n", 400},
      {get("X: a\r\n b\r\n"), 400},
      {get("X: a\r\n\tb\r\n"), 400},
      {"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
      {get(std::string_view("X: a\0b\r\n", 8)), 400},
      {get("X: a\x01\r\n"), 400},
      {get("X: a\x7f\r\n"), 400},
      {get("X Y: a\r\n"), 400},
      {get("X\xff: a\r\n"), 400},
      {get(": a\r\n"), 400},
      {get("X\r\n"), 400},
      {get("(x): a\r\n"), 400},
      {get("Host: b\r\n"), 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /  HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
      {"GET /\r\nHost: a\r\n\r\n", 400},
      {"GET\r\n\r\n", 400},
      {"GET / http/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
      {"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"\x16\x03\x01\x02", 400},  // TLS
  };
  for (const auto& [text, expected] : cases)
    EXPECT_EQ(status(text), expected) << text << outcome(text);
}

TEST(RequestParser, a_malformed_chunked_body_is_refused) {
  for (const char* body : {"x\r\n",
                           "\r\n",
                           "-1\r\n\r\n",
                           "+3\r\nabc\r\n",
                           " 3\r\nabc\r\n",
                           "0x3\r\nabc\r\n\r\n",
                           "3 \r\nabc\r\n",
                           "3\nabc\n",
                           "3\r\nabcd\r\n",
                           "3\r\nabc\n0\r\n\r\n",
                           "3\r\nabcX\r\n",
                           "3;\r\nabc\r\n",
                           "3;a=\"b\r\nabc\r\n",
                           "3;a\nb\r\nabc\r\n",
                           "ffffffffffffffffff\r\n",
                           "1g\r\n",
                           "3\r\nabc\r\n0\r\nTrailer x\r\n\r\n",
                           "3\r\nabc\r\n0\r\nTrailer : x\r\n\r\n",
                           "0\r\n x\r\n\r\n",
                           "0\r\n\n\r\n\r\n"}) {
    // A reader may wait for a line's end.
    const std::string text = kChunked + body + "\r\n0\r\n\r\n";
    EXPECT_EQ(status(text), 400) << body << " " << outcome(text);
    for (const std::size_t piece : {1, 2, 3, 7}) {
      EXPECT_EQ(outcome(text, piece).substr(0, 3), "400") << body << " in " << piece;
    }
  }
}

TEST(RequestParser, extensions_and_fields_behind_a_body_are_left_out) {
  for (const char* body : {"3;a=\"b\"\r\nabc\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n",
                           "3\r\nabc\r\n0;q=\"\\\"\"\r\nContent-Length: 5\r\nHost: b\r\n\r\n"}) {
    for (const std::size_t piece : {1, 2, 3, 7, 1000}) {
      // The next request is read from where it begins.
      EXPECT_EQ(
          outcome(kChunked + body + "GET /next HTTP/1.1\r\nHost: a\r\n\r\n", piece),
          outcome(kChunked + "3\r\nabc\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n", piece))
          << body << " in " << piece;
    }
  }
  EXPECT_EQ(status(kChunked + "0\r\nX: " + std::string(2000, 'a')), 431);
  const std::string most = kChunked + "0\r\nX: " + std::string(1024 - 7, 'a');
  EXPECT_EQ(outcome(most + "\r\n\r\n"), "POST /c |");
  EXPECT_EQ(status(most + "a\r\n\r\n"), 431);  // although it is whole
}

TEST(RequestParser, limits_have_their_statuses) {
  EXPECT_EQ(status("GET /" + std::string(200, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n"), 414);
  EXPECT_EQ(status("GET /" + std::string(2000, 'a')), 414);
  EXPECT_EQ(status(get("X: " + std::string(2000, 'a') + "\r\n")), 431);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nX: " + std::string(2000, 'a')), 431);
  std::string many;
  for (int i = 0; i < 101; ++i) many += "a:\r\n";
  EXPECT_EQ(status(get(many)), 431);
  EXPECT_EQ(outcome(get("Content-Length: 1001\r\n")),
            "413 the body is longer than 1000 bytes (--max-body-mb)");
  EXPECT_EQ(status(get("Content-Length: 1000\r\n")), 0);
  EXPECT_EQ(outcome(kChunked + "3e9\r\n"),
            "413 the body is longer than 1000 bytes (--max-body-mb)");
  EXPECT_EQ(status(kChunked + "3e8\r\n"), 0);
  EXPECT_EQ(status(kChunked + "1\r\na\r\n3e8\r\n"), 413);
  EXPECT_EQ(status(kChunked + "fffffffffffffff\r\n"), 413);
  EXPECT_EQ(status(kChunked + std::string(5000, '0')), 400);
  EXPECT_EQ(status(kChunked + "1;" + std::string(5000, 'a')), 400);
  EXPECT_EQ(status(get("Expect: 200-maybe\r\n")), 417);
}

TEST(RequestParser, a_head_of_the_largest_size_is_read) {
  const std::string rest = get("X: \r\n");
  const std::string fits = get("X: " + std::string(1024 - rest.size(), 'a') + "\r\n");
  ASSERT_EQ(fits.size(), 1024u);
  EXPECT_EQ(outcome(fits), "GET / |");
  EXPECT_EQ(outcome(fits, 1), "GET / |");
  EXPECT_EQ(status(get("X: " + std::string(1025 - rest.size(), 'a') + "\r\n")), 431);
}

TEST(RequestParser, a_peer_that_waits_for_continue_is_told_once) {
  RequestParser parser(small_limits());
  parser.append(get("Expect: 100-Continue\r\nContent-Length: 2\r\n"));
  EXPECT_EQ(parser.parse(), Progress::kNeedMore);
  EXPECT_TRUE(parser.take_expectation());
  EXPECT_FALSE(parser.take_expectation());
  parser.append("ab");
  EXPECT_EQ(parser.parse(), Progress::kRequest);
  EXPECT_EQ(parser.take().body, "ab");

  // Not if it did not wait, has no body, or speaks HTTP/1.0.
  for (const std::string& text :
       {get("Expect: 100-continue\r\nContent-Length: 2\r\n") + "a", get("Expect: 100-continue\r\n"),
        std::string("GET / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")}) {
    RequestParser other(small_limits());
    other.append(text);
    EXPECT_NE(other.parse(), Progress::kRefused);
    EXPECT_FALSE(other.take_expectation()) << text;
  }
}

TEST(RequestParser, the_target_s_authority_replaces_the_host) {
  RequestParser parser(small_limits());
  parser.append("GET http://b:1/p HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_EQ(parser.parse(), Progress::kRequest);
  const HttpRequest request = parser.take();
  EXPECT_EQ(request.path, "/p");
  EXPECT_EQ(request.header("host"), "b:1");
}

TEST(RequestParser, a_length_that_is_promised_takes_no_memory_before_it_arrives) {
  HttpLimits limits;
  limits.max_body_bytes = std::size_t{1} << 40;
  RequestParser parser(limits);
  parser.append(get("Content-Length: 1099511627776\r\n") + "a");
  EXPECT_EQ(parser.parse(), Progress::kNeedMore);
  EXPECT_EQ(parser.body_bytes(), 1u);
}

}  // namespace
}  // namespace glint
