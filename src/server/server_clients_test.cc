// Clients that vanish, crowd, hang or are cut off, over real sockets.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/queue.h"
#include "base/random.h"
#include "base/seconds.h"
#include "server/testing.h"

namespace glint {
namespace {

// An executor that takes 20 ms a step, and answers that never end by themselves.
TestServerOptions slow_options() {
  TestServerOptions options;
  options.executor.script = [](const Request&) { return std::vector<TokenId>(1500, 11); };
  options.executor.step_seconds = 0.02;
  options.executor.sleep = true;
  return options;
}

TEST(ServerClients, a_client_that_vanishes_frees_its_place) {
  TestServer server("", slow_options());
  for (const bool stream : {true, false}) {
    const std::uint64_t before = server->stats().generated_tokens;
    const auto runs = [&] { return server->stats().generated_tokens > before; };
    HttpClient client = server.client();
    int pieces = 0;
    const HttpClient::Id asked =
        client.start({.method = "POST",
                      .target = "/v1/completions",
                      .headers = {{"content-type", "application/json"}},
                      .body = str(R"({"prompt": "x", "max_tokens": 1500, "stream": )",
                                  stream ? "true" : "false", "}"),
                      .on_piece = [&](std::string_view) { return ++pieces < 3; },
                      .on_done = [](const auto&) {}});
    const std::function<void()> look = [&] {
      runs() ? client.cancel(asked) : client.after(0.001, look);
    };
    if (!stream) look();
    client.run();
    EXPECT_TRUE(eventually(runs));
    EXPECT_TRUE(eventually([&] { return server->stats().num_running == 0; }));
    EXPECT_TRUE(eventually([&] { return server->stats().used_pages == 0; }));
  }
}

TEST(ServerClients, a_vanished_client_is_noticed_in_prefill) {
  TestServerOptions options = slow_options();
  options.engine.scheduler.max_step_tokens = 16;
  options.executor.step_seconds = 0.05;
  TestServer server("", options);
  std::thread client([&] {
    HttpClient c = server.client(0.3);
    std::string ids = "[1";
    for (int i = 0; i < 1900; ++i) ids += ",1";
    (void)c.send("POST", "/v1/completions", {{"content-type", "application/json"}},
                 R"({"max_tokens": 5, "prompt": )" + ids + "]}");
  });
  client.join();
  EXPECT_TRUE(eventually([&] { return server->stats().num_running == 0; }));
  EXPECT_EQ(server->stats().generated_tokens, 0u);
}

TEST(ServerClients, requests_can_be_aborted_by_name) {
  TestServer server("", slow_options());
  std::thread client([&] {
    const Json out =
        server.post("/v1/completions", R"({"prompt": "x", "max_tokens": 1500, "rid": "me"})");
    EXPECT_EQ(at(out, "choices.0.finish_reason"), "abort");
  });
  EXPECT_TRUE(eventually([&] { return server->stats().num_running == 1; }));
  EXPECT_EQ(at(server.post("/abort_request", R"({"rid": "other"})"), "aborted"), "0");
  EXPECT_EQ(at(server.post("/abort_request", R"({"rid": "me"})"), "aborted"), "1");
  client.join();
}

TEST(ServerClients, the_id_that_a_stream_tells_aborts_it) {
  TestServer server("", slow_options());
  std::string told, aborted;
  HttpClient client = server.client();
  SseReader reader([&](std::string_view, std::string_view data) {
    if (told.empty()) {
      told = at(parse_json(data).value(), "meta_info.id");
      aborted = at(server.post("/abort_request", str(R"({"rid": ")", told, "\"}")), "aborted");
    }
    return true;
  });
  const auto response =
      client.send("POST", "/generate", {{"content-type", "application/json"}},
                  R"({"text": "x", "stream": true, "sampling_params": {"max_new_tokens": 1500}})",
                  [&](std::string_view piece) { return reader.feed(piece); });
  EXPECT_TRUE(response.ok());
  EXPECT_EQ(aborted, "1") << told;
}

TEST(ServerClients, the_id_of_a_choice_aborts_that_choice_alone) {
  TestServer server("", slow_options());
  std::vector<std::string> steps;
  const auto abort = [&](const std::string& id) {
    EXPECT_EQ(at(server.post("/abort_request", str(R"({"rid": ")", id, "\"}")), "aborted"), "1");
  };
  HttpClient client = server.client();
  SseReader reader([&](std::string_view, std::string_view data) {
    if (data == "[DONE]") return true;
    const Json piece = parse_json(data).value();
    const std::string id = at(piece, "meta_info.id");
    const std::string end = at(piece, "meta_info.finish_reason.type");
    if (steps.empty()) {
      steps.push_back("begun");
      abort("me-0");
    } else if (!end.empty()) {
      steps.push_back(str(id, " ", end));
    } else if (id == "me-1" && steps.size() == 2) {
      steps.push_back("me-1 goes on");
      abort("me");
    }
    return true;
  });
  const auto response = client.send(
      "POST", "/generate", {{"content-type", "application/json"}},
      R"({"text": "x", "rid": "me", "stream": true, "sampling_params": {"n": 2, "max_new_tokens": 1500}})",
      [&](std::string_view piece) { return reader.feed(piece); });
  EXPECT_TRUE(response.ok());
  EXPECT_EQ(steps, (std::vector<std::string>{"begun", "me-0 abort", "me-1 goes on", "me-1 abort"}));
}

TEST(ServerClients, a_full_queue_is_429_with_retry_after) {
  TestServerOptions options = slow_options();
  options.engine.scheduler.max_running = 1;
  options.engine.max_waiting = 1;
  TestServer server("", options);
  std::vector<std::thread> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back([&] {
      const HttpResponse r =
          server.send("POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 1500})");
      EXPECT_EQ(r.status, 200) << r.body;
    });
  }
  EXPECT_TRUE(eventually([&] {
    const EngineStats stats = server->stats();
    return stats.num_running == 1 && stats.num_waiting == 1;
  }));
  const HttpResponse refused =
      server.send("POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 20})");
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_NE(refused.header("retry-after"), "");
  server.post("/abort_request", R"({"abort_all": true})");
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(ServerClients, answers_of_one_body_do_not_fill_the_queue_for_each_other) {
  TestServerOptions options;
  options.engine.max_waiting = 2;
  const TestServer server("Hello", options);
  server.post("/v1/completions", R"({"prompt": "x", "n": 8})");
  server.post("/v1/completions", R"({"prompt": ["x", "x", "x", "x", "x", "x", "x", "x"]})");
  server.post("/generate", R"({"text": ["x", "x", "x", "x", "x", "x", "x", "x"]})");
}

TEST(ServerClients, what_would_wait_too_long_is_refused_beforehand) {
  TestServerOptions options = slow_options();
  options.engine.scheduler.max_running = 1;
  options.config.max_queue_seconds = 0.5;
  TestServer server("", options);
  std::vector<std::thread> clients;
  const auto ask = [&](const char* name) {
    clients.emplace_back([&server, name] {
      server.post("/v1/completions",
                  str(R"({"prompt": "x", "max_tokens": 1500, "rid": ")", name, "\"}"));
    });
  };
  // A prediction needs one to have ended after steps in which others waited.
  ask("first");
  EXPECT_TRUE(eventually([&] { return server->stats().generated_tokens > 0; }));
  ask("second");
  ask("third");
  EXPECT_TRUE(eventually([&] { return server->stats().num_waiting == 2; }));
  const std::uint64_t before = server->stats().generated_tokens;
  EXPECT_TRUE(eventually([&] { return server->stats().generated_tokens > before + 4; }));
  server.post("/abort_request", R"({"rid": "first"})");
  EXPECT_TRUE(eventually([&] { return server->stats().predicted_wait_seconds > 0.5; }));
  const HttpResponse r =
      server.send("POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 5})");
  EXPECT_EQ(r.status, 429) << r.body;
  EXPECT_NE(r.body.find("would wait about"), std::string::npos) << r.body;
  EXPECT_NE(r.header("retry-after"), "");
  server.post("/abort_request", R"({"abort_all": true})");
  for (std::thread& client : clients) client.join();
}

TEST(ServerClients, an_aborted_answer_does_not_pass_for_a_whole_one) {
  TestServer server("", slow_options());
  const auto aborted = [&](const std::string& path, const std::string& body) {
    HttpResponse response;
    std::thread client([&] { response = server.send("POST", path, body); });
    EXPECT_TRUE(eventually([&] { return server->stats().num_running == 1; }));
    server.post("/abort_request", R"({"abort_all": true})");
    client.join();
    return str(response.status, " ", response.body);
  };
  EXPECT_NE(aborted("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "x"}]})")
                .find(R"("finish_reason":"abort")"),
            std::string::npos);
  const std::string messages =
      R"({"max_tokens": 50, "messages": [{"role": "user", "content": "x"}], "stream": )";
  for (const std::string& answer :
       {aborted("/v1/messages", messages + "false}"), aborted("/v1/messages", messages + "true}"),
        aborted("/v1/responses", R"({"input": "x"})")})
    EXPECT_NE(answer.find("the request was aborted"), std::string::npos) << answer;
  const std::string page = server.get("/metrics").body;
  for (const char* line : {R"(finished_reason="abort",model_name="tiny"} 4)",
                           R"(finished_reason="error",model_name="tiny"} 0)"})
    EXPECT_NE(page.find(line), std::string::npos) << page;
}

TEST(ServerClients, drains_what_runs_and_refuses_what_comes) {
  TestServer server("", slow_options());
  std::thread client([&] {
    const Json out = server.post("/v1/completions", R"({"prompt": "x", "max_tokens": 30})");
    EXPECT_EQ(at(out, "choices.0.finish_reason"), "length");
  });
  EXPECT_TRUE(eventually([&] { return server->stats().generated_tokens > 0; }));
  server.post("/pause_generation", R"({"mode": "in_place"})");
  std::thread drainer([&] { EXPECT_EQ(server->drain(30), 0); });
  EXPECT_TRUE(eventually([&] { return server.get("/health").status == 503; }));
  const HttpResponse refused = server.send("POST", "/v1/completions", R"({"prompt": "x"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("x-glint-state"), "draining");
  EXPECT_NE(refused.header("retry-after"), "");
  EXPECT_EQ(at(server.post("/abort_request", R"({"rid": "other"})"), "aborted"), "0");
  client.join();
  drainer.join();
  server.post("/continue_generation", "{}");
}

TEST(ServerClients, bodies_that_wait_to_be_read_when_a_drain_begins_are_503) {
  const std::string body = R"({"prompt": ")" + std::string(900'000, 'a') + "\"}";
  std::atomic<int> refused = 0;
  // All may have been read before the drain begins: then once more.
  for (int round = 0; round < 10 && refused == 0; ++round) {
    TestServer server;  // one thread reads
    std::atomic<int> answered = 0;
    std::vector<std::thread> clients;
    for (int i = 0; i < 32; ++i) {
      clients.emplace_back([&] {
        refused += server.send("POST", "/tokenize", body).status == 503;
        ++answered;
      });
    }
    while (answered == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server->drain(0);
    for (std::thread& client : clients) client.join();
  }
  EXPECT_GT(refused, 0);
}

TEST(ServerClients, answers_that_have_not_begun_when_a_drain_ends_are_503_with_retry_after) {
  TestServerOptions options = slow_options();
  options.engine.scheduler.max_running = 1;
  TestServer server("", options);
  const auto chat = [&](HttpResponse& response, const char* stream) {
    response = server.send(
        "POST", "/v1/chat/completions",
        str(R"({"messages": [{"role": "user", "content": "x"}], "stream": )", stream, "}"));
  };
  HttpResponse running, waiting[2];
  std::thread first([&] { chat(running, "false"); });
  EXPECT_TRUE(eventually([&] { return server->stats().generated_tokens > 0; }));
  std::thread second([&] { chat(waiting[0], "false"); });
  std::thread third([&] { chat(waiting[1], "true"); });
  EXPECT_TRUE(eventually([&] { return server->stats().num_waiting == 2; }));
  EXPECT_EQ(server->drain(0), 3);
  for (std::thread* client : {&first, &second, &third}) client->join();
  EXPECT_EQ(running.status, 200);
  EXPECT_NE(running.body.find(R"("finish_reason":"abort")"), std::string::npos) << running.body;
  for (const HttpResponse& response : waiting) {
    EXPECT_EQ(response.status, 503) << response.body;
    EXPECT_NE(response.header("retry-after"), "");
  }
}

TEST(ServerClients, a_list_of_which_nothing_has_begun_when_a_drain_ends_is_503) {
  TestServerOptions options = slow_options();
  options.engine.scheduler.max_running = 2;
  TestServer server("", options);
  HttpResponse begun, waiting[2];
  const auto list = [&](HttpResponse& response, const char* stream) {
    response = server.send("POST", "/generate",
                           str(R"({"text": ["x", "y", "z"], "stream": )", stream, "}"));
  };
  std::thread first([&] { list(begun, "false"); });
  EXPECT_TRUE(eventually([&] { return server->stats().generated_tokens > 2; }));
  std::thread second([&] { list(waiting[0], "false"); });
  std::thread third([&] { list(waiting[1], "true"); });
  EXPECT_TRUE(eventually([&] { return server->stats().num_waiting == 7; }));
  server->drain(0);
  for (std::thread* client : {&first, &second, &third}) client->join();
  EXPECT_EQ(begun.status, 200);
  const Json answers = parse_json(begun.body).value();
  for (const char* i : {"0", "1", "2"})
    EXPECT_EQ(at(answers, str(i, ".meta_info.finish_reason.type")), "abort") << begun.body;
  for (const HttpResponse& response : waiting) {
    EXPECT_EQ(response.status, 503) << response.body;
    EXPECT_NE(response.header("retry-after"), "");
  }
}

TEST(ServerClients, a_drain_cancels_what_takes_longer) {
  TestServer server("", slow_options());
  std::thread client([&] {
    const Json out = server.post("/v1/completions", R"({"prompt": "x", "max_tokens": 1500})");
    EXPECT_EQ(at(out, "choices.0.finish_reason"), "abort");
  });
  EXPECT_TRUE(eventually([&] { return server->stats().num_running == 1; }));
  EXPECT_EQ(server->drain(0.1), 1);
  client.join();
}

TEST(ServerClients, an_abort_does_not_wait_for_weights) {
  std::function<bool()> abort;
  TestServerOptions options;
  options.config.trainers.checksum_of = [&](const std::string&) {
    return abort() ? Result<std::string>("c") : invalid("it waits");
  };
  TestServer server("x", options);
  abort = [&] {
    HttpClient client = server.client(20);
    return client.send("POST", "/abort_request", {}, R"({"abort_all": true})").ok();
  };
  server.post("/update_weights_from_disk", R"({"model_path": "x", "checksum": "c"})");
}

TEST(ServerClients, a_failing_request_is_told_and_the_others_go_on) {
  TestServerOptions options;
  options.executor.fails = [](RequestId, int position) { return position > 20; };
  TestServer server(" a b c d", options);
  const HttpResponse failed = server.send(
      "POST", "/v1/completions",
      R"({"prompt": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], "max_tokens": 9})");
  EXPECT_EQ(failed.status, 500) << failed.body;
  EXPECT_NE(failed.body.find("engine_error"), std::string::npos);
  EXPECT_EQ(at(server.post("/v1/completions", R"({"prompt": "x"})"), "choices.0.text"), " a b c d");
}

TEST(ServerClients, generation_can_pause) {
  TestServer server("x");
  EXPECT_EQ(server.send("POST", "/pause_generation", "").status, 200);
  std::thread client([&] { server.post("/v1/completions", R"({"prompt": "x"})"); });
  EXPECT_TRUE(eventually([&] { return server->stats().num_waiting == 1; }));
  EXPECT_EQ(at(parse_json(server.get("/engine").body).value(), "paused"), "true");
  EXPECT_EQ(server.send("POST", "/continue_generation", "").status, 200);
  client.join();
}

TEST(ServerClients, a_pause_cancels_what_runs_unless_its_mode_says_otherwise) {
  std::atomic<bool> may_end{false};
  TestServerOptions options;
  options.executor.step_seconds = 0.001;
  options.executor.sleep = true;
  options.executor.script = [](const Request&) { return std::vector<TokenId>(20, 5); };
  options.executor.late = [&](RequestId, int position) { return position > 10 && !may_end; };
  TestServer server("", options);
  for (const bool aborts : {true, false}) {
    Json answer;
    std::thread client([&] {
      answer =
          server.post("/generate", R"({"text": "x", "sampling_params": {"max_new_tokens": 20}})");
    });
    EXPECT_TRUE(eventually([&] { return server->stats().num_running == 1; }));
    server.post("/pause_generation", aborts ? "{}" : R"({"mode": "retract"})");
    EXPECT_TRUE(eventually([&] { return server.send("POST", "/flush_cache").status == 200; }));
    EXPECT_TRUE(eventually([&] { return server->stats().num_waiting == (aborts ? 0 : 1); }));
    may_end = true;
    server.post("/continue_generation", "{}");
    client.join();
    may_end = false;
    EXPECT_EQ(at(answer, "meta_info.finish_reason.type"), aborts ? "abort" : "length");
  }
  EXPECT_EQ(server.send("POST", "/pause_generation", R"({"mode": "x"})").status, 400);
}

// A whole stream; the engine is paused until the stream has sent `text`.
std::string waited_for(TestServer& server, const std::string& path, const std::string& body,
                       const std::string& text) {
  EXPECT_EQ(server.send("POST", "/pause_generation").status, 200);
  HttpClient c = server.client();
  std::string got;
  bool resumed = false;
  const auto response = c.send(
      "POST", path, {{"content-type", "application/json"}}, body, [&](std::string_view piece) {
        got += piece;
        if (!resumed && got.find(text) != std::string::npos) {
          resumed = true;
          EXPECT_EQ(server.send("POST", "/continue_generation").status, 200);
        }
        return true;
      });
  EXPECT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response.value().status, 200);
  EXPECT_TRUE(resumed) << got;
  return got;
}

TEST(ServerClients, a_stream_says_that_it_is_there_within_its_time) {
  TestServerOptions options;
  options.config.keep_alive_seconds = 4;  // it comes after 2 to 3: a busy machine has a second more
  TestServer server("</think>Yes.", options);
  EXPECT_EQ(server.send("POST", "/pause_generation").status, 200);
  HttpClient c = server.client();
  double seconds = 9;
  const auto begun = std::chrono::steady_clock::now();
  (void)c.send("POST", "/v1/completions", {{"content-type", "application/json"}},
               R"({"prompt": "x", "stream": true})", [&](std::string_view) {
                 seconds = seconds_since(begun);
                 return false;
               });
  EXPECT_LT(seconds, 4);
  EXPECT_GT(seconds, 1);
}

TEST(ServerClients, a_stream_on_which_nothing_comes_says_that_it_is_there) {
  TestServerOptions options;
  options.config.keep_alive_seconds = 0.05;
  TestServer server("</think>Yes.", options);
  const std::string message = R"("messages": [{"role": "user", "content": "Hi"}], "stream": true)";
  const std::string chat =
      waited_for(server, "/v1/chat/completions", "{" + message + "}", ": waiting\n\n: waiting\n\n");
  EXPECT_TRUE(chat.starts_with(": waiting\n\n")) << chat;
  EXPECT_NE(chat.find("\"content\":\"Y\""), std::string::npos) << chat;
  EXPECT_TRUE(chat.ends_with("data: [DONE]\n\n"));
  const std::string messages =
      waited_for(server, "/v1/messages", R"({"max_tokens": 9, )" + message + "}", "event: ping");
  EXPECT_TRUE(messages.starts_with("event: message_start\n")) << messages;
  EXPECT_NE(messages.find("event: message_stop"), std::string::npos);
}

// The second waits for the grammar of the first.
TEST(ServerClients, a_stream_that_waits_for_a_grammar_says_that_it_is_there) {
  TestServerOptions options;
  options.config.keep_alive_seconds = 0.02;
  const auto body = [](const std::string& constraint) {
    return R"({"prompt": "x", "max_tokens": 99, "stream": true, )" + constraint + "}";
  };
  const std::string slow =
      body(R"("guided_json": {"type": "object", "required": ["a"], "properties": {
              "a": {"type": "string", "pattern": "^[a-z]{10,1499}$"}}})");
  const HttpHeaders headers = {{"content-type", "application/json"}};
  const auto both_wait = [&](std::string& answer, std::string& refused) {
    const TestServer server(R"({"a": "aaaaaaaaaa"})", options);
    HttpClient first = server.client(), second = server.client();
    const auto response =
        first.send("POST", "/v1/completions", headers, slow, [&](std::string_view piece) {
          if (answer.empty())
            (void)second.send("POST", "/v1/completions", headers, body(R"("guided_regex": "(")"),
                              [&](std::string_view more) {
                                refused += more;
                                return true;
                              });
          answer += piece;
          return true;
        });
    EXPECT_TRUE(response.ok());
    EXPECT_EQ(server->stats().num_running, 0);
    return answer.starts_with(": waiting\n\n") && refused.starts_with(": waiting\n\n");
  };
  // A busy machine may have compiled the grammar before it asks for the second: then once more.
  std::string answer, refused;
  for (int round = 0; round < 10 && !both_wait(answer, refused); ++round) answer = refused = "";
  EXPECT_TRUE(answer.starts_with(": waiting\n\n")) << answer;
  EXPECT_TRUE(answer.ends_with("data: [DONE]\n\n")) << answer;
  EXPECT_NE(refused.find("data: {\"error\""), std::string::npos) << refused;
}

TEST(ServerClients, a_reader_that_takes_nothing_does_not_hold_the_others) {
  TestServerOptions options;
  options.executor.script = [](const Request&) { return std::vector<TokenId>(2000, 11); };
  options.config.http.limits.max_stream_buffer = 20000;
  options.config.http.limits.write_seconds = 1;
  TestServer server("", options);
  Queue<int> release;
  std::thread slow([&] {
    HttpClient c = server.client();
    bool waited = false;
    (void)c.send("POST", "/v1/completions", {{"content-type", "application/json"}},
                 R"({"prompt": "x", "max_tokens": 2000, "n": 8, "stream": true})",
                 [&](std::string_view) {
                   if (!std::exchange(waited, true)) release.pop();
                   return true;
                 });
  });
  EXPECT_EQ(at(server.post("/v1/completions", R"({"prompt": "x", "max_tokens": 9})"),
               "usage.completion_tokens"),
            "9");
  release.close();
  slow.join();
  EXPECT_TRUE(eventually([&] { return server->stats().num_running == 0; }));
}

TEST(ServerClients, a_hundred_clients_at_once_each_get_their_own) {
  TestServerOptions options;
  options.executor.script = [](const Request& request) {
    return std::vector<TokenId>(20, request.prompt[0]);
  };
  TestServer server("", options);
  std::vector<std::thread> clients;
  for (int c = 0; c < 100; ++c)
    clients.emplace_back([&server, c] {
      const Json out = server.post(
          "/generate",
          str(R"({"input_ids": [)", 1000 + c, R"(], "sampling_params": {"max_new_tokens": 50}})"));
      EXPECT_EQ(at(out, "output_ids.0"), str(1000 + c));
      EXPECT_EQ(at(out, "output_ids.19"), str(1000 + c));
    });
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(eventually([&] { return server->stats().used_pages == 0; }));
}

// Few pages, so that requests are preempted; many clients, most of which leave early.
TEST(ServerClients, impatient_clients_leave_nothing_behind) {
  TestServerOptions options;
  options.engine.scheduler.max_running = 16;
  options.engine.max_waiting = 24;
  options.executor.num_pages = 24;
  options.executor.check_rows = true;
  options.executor.step_seconds = 0.0005;
  options.executor.sleep = true;
  options.executor.script = [](const Request& request) {
    return std::vector<TokenId>(150, request.prompt[0]);
  };
  TestServer server("", options);
  std::atomic<int> finished = 0, refused = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 48; ++c)
    clients.emplace_back([&, c] {
      Random random(static_cast<std::uint64_t>(c));
      for (int round = 0; round < 6; ++round) {
        const bool stream = random.below(2) == 0;
        int patience = static_cast<int>(random.below(120));
        HttpClient client = server.client(random.below(2) == 0 ? 0.05 : 20);
        const bool is_list = random.below(3) == 0;
        const std::string fields =
            is_list ? str(R"("input_ids": [[)", 100 + c, R"(, 1, 2], [5]], "sampling_params": )",
                          R"([{"max_new_tokens": 150}, {"max_new_tokens": 3, "n": 2}])")
                    : str(R"("max_tokens": 150, "n": )", 1 + random.below(3), R"(, "prompt": [)",
                          100 + c, ", 1, 2, 3]");
        const auto response =
            client.send("POST", is_list ? "/generate" : "/v1/completions",
                        {{"content-type", "application/json"}},
                        str("{", fields, R"(, "stream": )", stream ? "true" : "false", "}"),
                        [&](std::string_view) { return patience-- > 0; });
        if (response.ok() && response.value().status == 200) ++finished;
        if (response.ok() && response.value().status == 429) ++refused;
        EXPECT_TRUE(!response.ok() || response.value().status < 500);
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(eventually([&] {
    const EngineStats stats = server->stats();
    return stats.num_running == 0 && stats.num_waiting == 0 && stats.used_pages == 0;
  }));
  EXPECT_GT(finished, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(at(server.post("/generate", R"({"input_ids": [7]})"), "output_ids.99"), "7");
  EXPECT_EQ(server.get("/health").status, 200);
}

// All but the first come when nothing runs any more.
TEST(ServerClients, a_device_that_is_lost_is_503_with_retry_after) {
  TestServerOptions options;
  options.executor.step_fails = [](std::uint64_t step) { return step == 1; };
  options.executor.recovers = false;
  const TestServer server("Hello", options);
  for (const auto& [path, fields] :
       {std::pair("/v1/completions", R"("prompt": "x")"),
        {"/generate", R"("text": "x")"},
        {"/v1/responses", R"("input": "x")"},
        {"/v1/messages", R"("messages": [{"role": "user", "content": "x"}])"}}) {
    const HttpResponse response =
        server.send("POST", path, str(R"({"model": "tiny", "max_tokens": 9, )", fields, "}"));
    EXPECT_EQ(response.status, 503) << path;
    EXPECT_NE(response.header("retry-after"), "") << path;
    EXPECT_NE(response.body.find("no rank is left"), std::string::npos) << response.body;
  }
}

}  // namespace
}  // namespace glint
