// TLS of server and client: certificates made by the openssl program, which is also a client that
// is not ours.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/test_dir.h"
#include "net/http_client.h"
#include "net/testing.h"

namespace glint {
namespace {

// A path as one word of a shell: folders for temporary files may have blanks in their names.
std::string word(const std::string& path) { return "'" + path + "'"; }

// NAME.pem and NAME.key for "localhost" and 127.0.0.1.
void make_certificate(const TestDir& folder, const std::string& name) {
  const std::string command =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
      "/CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout " +
      word(folder / (name + ".key")) + " -out " + word(folder / (name + ".pem")) + " 2>/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
}

HttpServerOptions tls_options(const TestDir& folder, const std::string& name) {
  HttpServerOptions options;
  options.tls_certificate = folder / (name + ".pem");
  options.tls_key = folder / (name + ".key");
  return options;
}

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = popen((command + " 2>&1 </dev/null").c_str(), "r");
  char bytes[4096];
  while (const std::size_t n = fread(bytes, 1, sizeof bytes, pipe)) out.append(bytes, n);
  pclose(pipe);
  return out;
}

TEST(Tls, our_client_and_curl_are_served) {
  const TestDir folder;
  make_certificate(folder, "a");
  const auto server = serve(echo, tls_options(folder, "a"));
  HttpClient client("https://127.0.0.1:" + std::to_string(server->port()),
                    {.ca_file = folder / "a.pem"});
  for (int i = 0; i < 3; ++i) {
    const auto response = client.send("POST", "/x", {}, std::string(100'000, 'x'));
    ASSERT_TRUE(response.ok()) << response.error().message;
    EXPECT_EQ(response.value().body.size(), 100'008u);
  }
  EXPECT_EQ(server->num_connections(), 1);
  const std::string curl = "curl -sS --noproxy '*' --cacert " + word(folder / "a.pem") +
                           " https://localhost:" + std::to_string(server->port());
  EXPECT_EQ(output_of(curl + "/c -d y"), "POST /c y");
  EXPECT_EQ(output_of(curl + "/c --http1.0"), "GET /c ");
  EXPECT_EQ(output_of(curl + "/c --tls-max 1.2"), "GET /c ");
}

TEST(Tls, old_protocols_and_weak_ciphers_are_refused) {
  const TestDir folder;
  make_certificate(folder, "a");
  const auto server = serve(echo, tls_options(folder, "a"));
  const std::string connect =
      "openssl s_client -brief -connect 127.0.0.1:" + std::to_string(server->port());
  EXPECT_NE(output_of(connect + " -tls1_2").find("Protocol version: TLSv1.2"), std::string::npos);
  EXPECT_NE(output_of(connect + " -tls1_3").find("Protocol version: TLSv1.3"), std::string::npos);
  for (const char* old :
       {" -tls1_1 -cipher ALL:@SECLEVEL=0", " -tls1 -cipher ALL:@SECLEVEL=0",
        " -tls1_2 -cipher AES128-SHA", " -tls1_2 -cipher ECDHE-ECDSA-AES128-SHA"}) {
    EXPECT_EQ(output_of(connect + old).find("Protocol version"), std::string::npos) << old;
  }
}

TEST(Tls, certificates_that_are_not_trusted_are_refused_by_the_client) {
  const TestDir folder;
  make_certificate(folder, "a");
  make_certificate(folder, "b");
  const auto server = serve(echo, tls_options(folder, "a"));
  const std::string name = "https://127.0.0.1:" + std::to_string(server->port());
  HttpClient wrong(name, {.ca_file = folder / "b.pem", .ca_option = "--ca-file"});
  const Error error = wrong.send("GET", "/", {}, "").error();
  EXPECT_EQ(error.message, "the certificate of " + name +
                               " is not trusted: self-signed certificate; --ca-file names a file "
                               "of roots to trust");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);  // another attempt would be in vain
  HttpClient no_file(name, {.ca_file = folder / "none.pem"});
  EXPECT_EQ(no_file.send("GET", "/", {}, "").error().message.substr(0, 21),
            "the file of TLS roots");
}

TEST(Tls, streams_end_and_disconnects_are_noticed) {
  const TestDir folder;
  make_certificate(folder, "a");
  std::atomic<int> num_gone = 0;
  Exchanges exchanges;
  const auto server = serve(exchanges.handler(), tls_options(folder, "a"));
  HttpClient client("https://127.0.0.1:" + std::to_string(server->port()),
                    {.ca_file = folder / "a.pem"});
  std::thread answering([&] {
    HttpExchange whole = exchanges.next().second;
    whole.begin_stream(200, {});
    for (int i = 0; i < 1000; ++i) whole.write("0123456789");
    whole.finish();
    HttpExchange cut = exchanges.next().second;
    cut.on_disconnect([&] { ++num_gone; });
    cut.begin_stream(200, {});
    cut.write("x");
    EXPECT_TRUE(eventually([&] { return num_gone == 1; }));
  });
  EXPECT_EQ(client.send("GET", "/", {}, "").value().body.size(), 10'000u);
  EXPECT_TRUE(client.send("GET", "/", {}, "", [](std::string_view) { return false; }).ok());
  answering.join();
}

TEST(Tls, peers_that_speak_no_tls_or_nothing_are_closed) {
  const TestDir folder;
  make_certificate(folder, "a");
  HttpServerOptions options = tls_options(folder, "a");
  options.limits.header_seconds = 0.1;
  const auto server = serve(echo, options);
  RawClient plain(server->port()), silent(server->port());
  plain.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  EXPECT_EQ(plain.read_all().find("HTTP/1.1"), std::string::npos);
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(eventually([&] { return server->num_connections() == 0; }));
}

TEST(Tls, the_server_shuts_down_under_open_connections) {
  const TestDir folder;
  make_certificate(folder, "a");
  Exchanges exchanges;
  auto server = serve(exchanges.handler(), tls_options(folder, "a"));
  HttpClient client("https://127.0.0.1:" + std::to_string(server->port()),
                    {.ca_file = folder / "a.pem"});
  std::thread ending([&] {
    HttpExchange exchange = exchanges.next().second;
    exchange.begin_stream(200, {});
    exchange.write("x");
    server.reset();
  });
  EXPECT_FALSE(client.send("GET", "/", {}, "").ok());
  ending.join();
}

TEST(Tls, files_that_do_not_fit_are_refused_in_one_sentence) {
  const TestDir folder;
  make_certificate(folder, "a");
  make_certificate(folder, "b");
  const auto error = [&](const std::string& certificate, const std::string& key) {
    HttpServerOptions options;
    options.tls_certificate = certificate;
    options.tls_key = key;
    const auto server = HttpServer::start(options, echo);
    return server.ok() ? "<ok>" : server.error().message;
  };
  const std::string pem = folder / "a.pem", key = folder / "a.key";
  EXPECT_EQ(error(pem, ""), "TLS needs both a certificate and a key, as PEM files");
  EXPECT_EQ(error(folder / "none", key).substr(0, 20), "the TLS certificate:");
  EXPECT_EQ(error(pem, folder / "none").substr(0, 12), "the TLS key:");
  EXPECT_EQ(error(key, key).find("the TLS certificate \"" + key + "\" is no PEM certificate"), 0u);
  EXPECT_NE(error(pem, folder / "b.key").find("key values mismatch"), std::string::npos)
      << error(pem, folder / "b.key");
  EXPECT_EQ(error(pem, pem).find("the TLS key \"" + pem + "\" cannot be used"), 0u);
  // An encrypted key would ask for its password on the terminal.
  ASSERT_EQ(std::system(("openssl ec -aes128 -passout pass:secret -in " + word(key) + " -out " +
                         word(folder / "locked.key") + " 2>/dev/null")
                            .c_str()),
            0);
  EXPECT_EQ(error(pem, folder / "locked.key").find("the TLS key"), 0u);
}

}  // namespace
}  // namespace glint
