#include "gateway/http/request_reader.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gateway/http/host_name.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

namespace http = boost::beast::http;

std::string Text(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Fields that are looked at here: which of two counts?
constexpr std::string_view kOnce[] = {"authorization", "content-encoding", "content-type",
                                      "expect",        "idempotency-key",  "last-event-id",
                                      "origin",        "x-api-key",        "x-request-id"};

// Whether a line of a head goes on in the next, which readers join in different ways.
bool IsFolded(std::string_view head) {
  return head.find("\r\n ") != std::string_view::npos ||
         head.find("\r\n\t") != std::string_view::npos;
}

size_t Count(const HttpFields& fields, std::string_view name) {
  return static_cast<size_t>(std::count_if(fields.begin(), fields.end(),
                                           [&](const auto& field) { return field.first == name; }));
}

}  // namespace

struct RequestReader::Parser {
  Parser() {
    parser.header_limit(kHeadBytesMax);
    parser.body_limit(static_cast<uint64_t>(kBodyBytesMax));
    parser.eager(true);
  }
  http::request_parser<http::string_body> parser;
};

RequestReader::RequestReader(HttpPeer peer)
    : peer_(std::move(peer)), parser_(std::make_unique<Parser>()) {
  request_.peer = peer_;
}
RequestReader::~RequestReader() = default;

int64_t RequestReader::body_bytes() const {
  return static_cast<int64_t>(parser_->parser.get().body().size());
}

void RequestReader::Fail(int status, std::string_view why) {
  at_ = At::kError;
  error_status_ = status;
  error_ = std::string(why);
}

void RequestReader::TakeTarget(std::string_view target) {
  constexpr std::string_view kBehindScheme = "://";
  const size_t colon = target.find(kBehindScheme);
  const std::string scheme = absl::AsciiStrToLower(std::string(target.substr(0, colon)));
  // A target that is nothing but such a word has no host behind it.
  if (colon != std::string_view::npos && (scheme == "http" || scheme == "https")) {
    target.remove_prefix(colon + kBehindScheme.size());
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    const std::string_view host = target.substr(0, end);
    const std::string_view said = request_.Field("host");
    if (HostName(host).empty() || (!said.empty() && HostName(said) != HostName(host))) {
      return Fail(400, "the host of the target is none, or not that of Host");
    }
    if (said.empty()) request_.fields.emplace_back("host", std::string(host));
    target.remove_prefix(end);
    if (target.empty() || target[0] == '?') {
      request_.path = "/";
      return;
    }
  }
  if (target.empty() || target[0] != '/') {
    return Fail(400, "the target is not a path that begins with a slash");
  }
  request_.path = std::string(target.substr(0, target.find('?')));
}

void RequestReader::CheckHead() {
  const auto& head = parser_->parser.get();
  request_.method = Text(head.method_string());
  const std::string target = Text(head.target());
  request_.keep_alive = head.keep_alive();
  request_.takes_chunks = head.version() >= 11;
  for (const auto& field : head) {
    request_.fields.emplace_back(absl::AsciiStrToLower(Text(field.name_string())),
                                 Text(field.value()));
  }
  const size_t hosts = Count(request_.fields, "host");
  if (hosts > 1 || (hosts == 0 && head.version() >= 11)) {
    return Fail(400, "the request has no Host, or several");
  }
  if (head.version() != 10 && head.version() != 11) {
    return Fail(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
  }
  TakeTarget(target);
  if (at_ == At::kError) return;
  const size_t encodings = Count(request_.fields, "transfer-encoding");
  const size_t lengths = Count(request_.fields, "content-length");
  if (lengths > 1 || encodings > 1 || lengths + encodings > 1) {
    return Fail(400, "the body's length is given twice");
  }
  const std::string encoding =
      absl::AsciiStrToLower(std::string(request_.Field("transfer-encoding")));
  if (encodings == 1 && (encoding != "chunked" || head.version() != 11)) {
    return Fail(400, "only the transfer encoding \"chunked\" of HTTP/1.1 is read here");
  }
  const std::string_view length = request_.Field("content-length");
  if (lengths == 1 && (length.empty() || !std::all_of(length.begin(), length.end(), [](char c) {
                         return c >= '0' && c <= '9';
                       }))) {
    return Fail(400, "Content-Length is not a number");
  }
  for (const std::string_view name : kOnce) {
    if (Count(request_.fields, name) > 1) return Fail(400, std::string(name) + " is given twice");
  }
  const std::string content = std::string(request_.Field("content-encoding"));
  if (!content.empty() && absl::AsciiStrToLower(content) != "identity") {
    return Fail(415, "compressed bodies are not read here: send it without Content-Encoding");
  }
  const std::string expect = absl::AsciiStrToLower(std::string(request_.Field("expect")));
  if (!expect.empty() && expect != "100-continue") return Fail(417, "Expect: 100-continue only");
  // HTTP/1.0 knows no such answer.
  expects_continue_ = !expect.empty() && head.version() == 11;
  at_ = At::kBody;
}

size_t RequestReader::Take(std::string_view bytes) {
  size_t taken = 0;
  // Some clients end the body before with one that no length counts.
  if (at_ == At::kNothing && !had_empty_line_ && bytes.substr(0, 1) == "\r") {
    if (bytes.size() < 2) return 0;
    had_empty_line_ = true;
    if (bytes[1] == '\n') taken = 2;
  }
  while (at_ < At::kEnd && taken < bytes.size()) {
    boost::system::error_code error;
    const bool had_head = parser_->parser.is_header_done();
    // The head by itself, so that it is looked at before its body is.
    parser_->parser.eager(had_head);
    const size_t n = parser_->parser.put(
        boost::asio::const_buffer(bytes.data() + taken, bytes.size() - taken), error);
    taken += n;
    if (at_ == At::kNothing) at_ = At::kHead;
    if (error == http::error::need_more) {
      // Head and chunk lines are parsed whole: they are kept by the caller until then.
      if (bytes.size() - taken > kHeadBytesMax) Fail(400, "a line of the body is too long");
      break;
    }
    if (error == http::error::header_limit) {
      Fail(431, absl::StrCat("the head is larger than ", kHeadBytesMax, " bytes"));
    } else if (error == http::error::body_limit) {
      Fail(413, absl::StrCat("the body is larger than ", kBodyBytesMax, " bytes"));
    } else if (error) {
      Fail(400, absl::StrCat("this is no HTTP request: ", error.message()));
    } else if (!had_head && parser_->parser.is_header_done()) {
      CheckHead();
      if (IsFolded(bytes.substr(taken - n, n))) Fail(400, "a field of the head is folded");
      if (at_ == At::kBody && !parser_->parser.is_done()) break;
    } else if (n == 0 && !parser_->parser.is_done()) {
      break;
    }
    if (at_ == At::kBody && parser_->parser.is_done()) at_ = At::kEnd;
  }
  return taken;
}

HttpRequest RequestReader::Release() {
  HttpRequest request = std::move(request_);
  request.body = std::move(parser_->parser.get().body());
  request_ = {.peer = peer_};
  parser_ = std::make_unique<Parser>();
  at_ = At::kNothing;
  had_empty_line_ = expects_continue_ = false;
  return request;
}

}  // namespace tutti::gateway
