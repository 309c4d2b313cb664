// The log line of a finished request. Keys are never in it; prompts and answers only if the
// operator asked, but for what the reason of a refusal quotes.
#pragma once

#include "server/answer.h"
#include "server/reply.h"
#include "server/server_config.h"
#include "server/telemetry/otlp_exporter.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {

// The record as a span, with the names of OpenTelemetry's conventions for generative AI.
Span span_of(const RequestRecord& record, const RequestContext& context);

void log_request(const LogConfig& config, const RequestRecord& record,
                 const RequestContext& context, const Answer& answer, const Tokenizer& tokenizer);

// The line of a request that ended before it generated, or asked for something else. Pages, probes
// and metrics have one only where they fail.
void log_answer(const RequestContext& context, int status, const std::string& error);

}  // namespace glint
