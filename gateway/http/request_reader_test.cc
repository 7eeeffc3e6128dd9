#include "gateway/http/request_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gateway/http/head_text.h"
#include "gateway/http/host_name.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

using At = RequestReader::At;

// Feeds `bytes` in pieces, as a connection does; what is left over afterwards.
std::string Feed(RequestReader* reader, const std::string& bytes, size_t piece) {
  std::string kept;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    kept += bytes.substr(at, piece);
    while (!kept.empty() && reader->at() < At::kEnd) {
      const size_t taken = reader->Take(kept);
      kept.erase(0, taken);
      if (taken == 0) break;
    }
  }
  return kept;
}

int StatusOf(const std::string& bytes) {
  int status = -1;
  for (const size_t piece : {size_t{1}, size_t{7}, bytes.size()}) {
    RequestReader reader;
    Feed(&reader, bytes, piece);
    const int got = reader.at() == At::kError ? reader.error_status()
                    : reader.at() == At::kEnd ? 200
                                              : 0;
    EXPECT_TRUE(status == -1 || status == got) << "in pieces of " << piece << ": " << bytes;
    status = got;
  }
  return status;
}

const std::string kHost = "Host: localhost\r\n";

TEST(RequestReader, ReadsBodiesOfEveryKindInPiecesOfEverySize) {
  const std::string bodies[] = {
      "POST /a?b=c HTTP/1.1\r\n" + kHost + "X-Y: z\r\nContent-Length: 5\r\n\r\nhello",
      "POST /a HTTP/1.1\r\n" + kHost + "x-y: z\r\nTransfer-Encoding: chunked\r\n\r\n" +
          "2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: no\r\n\r\n"};
  for (const std::string& bytes : bodies) {
    for (size_t piece = 1; piece <= bytes.size(); ++piece) {
      RequestReader reader;
      EXPECT_EQ(Feed(&reader, bytes, piece), "");
      ASSERT_EQ(reader.at(), At::kEnd) << reader.error();
      const HttpRequest request = reader.Release();
      EXPECT_EQ(request.method, "POST");
      EXPECT_EQ(request.path, "/a");
      EXPECT_EQ(request.Field("x-y"), "z");
      EXPECT_EQ(request.Field("trailer"), "");
      EXPECT_EQ(request.body, "hello");
      EXPECT_TRUE(request.keep_alive && request.takes_chunks);
      EXPECT_EQ(reader.at(), At::kNothing);
    }
  }
}

TEST(RequestReader, LeavesWhatBelongsToTheNextRequest) {
  RequestReader reader;
  const std::string one = "GET /live HTTP/1.1\r\n" + kHost + "\r\n";
  const std::string rest = Feed(&reader, one + one, one.size() * 2);
  ASSERT_EQ(reader.at(), At::kEnd);
  EXPECT_EQ(rest, one);
  reader.Release();
  EXPECT_EQ(Feed(&reader, rest, rest.size()), "");
  EXPECT_EQ(reader.at(), At::kEnd);
}

TEST(RequestReader, ReadsTargetsThatAreAddresses) {
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"GET http://localhost:8000/a?b HTTP/1.1\r\n" + kHost + "\r\n", "/a", "localhost"},
      {"GET HTTPS://LocalHost HTTP/1.1\r\n" + kHost + "\r\n", "/", "localhost"},
      {"GET http://localhost?b HTTP/1.1\r\n" + kHost + "\r\n", "/", "localhost"},
      {"GET http://a.example:80/live HTTP/1.0\r\n\r\n", "/live", "a.example:80"},
  };
  for (const auto& [bytes, path, host] : cases) {
    RequestReader reader;
    Feed(&reader, bytes, 3);
    ASSERT_EQ(reader.at(), At::kEnd) << bytes << reader.error();
    const HttpRequest request = reader.Release();
    EXPECT_EQ(request.path, path);
    EXPECT_EQ(request.Field("host"), host);
  }
}

TEST(RequestReader, IgnoresAnEmptyLineBeforeARequest) {
  const std::string get = "GET /live HTTP/1.1\r\n" + kHost + "\r\n";
  for (const size_t piece : {size_t{1}, size_t{2}, get.size()}) {
    RequestReader reader;
    Feed(&reader, "\r\n", piece);
    EXPECT_EQ(reader.at(), At::kNothing);
    EXPECT_EQ(Feed(&reader, get + "\r\n", piece), "\r\n");
    ASSERT_EQ(reader.at(), At::kEnd) << reader.error();
    reader.Release();
    EXPECT_EQ(Feed(&reader, "\r\n" + get, piece), "");
    EXPECT_EQ(reader.at(), At::kEnd);
  }
}

TEST(RequestReader, RefusesWhatTwoReadersCouldUnderstandDifferently) {
  const std::string post = "POST / HTTP/1.1\r\n" + kHost;
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  const std::string refused[] = {
      post + "Content-Length: 5\r\n" + chunked + "\r\n0\r\n\r\n",
      post + chunked + "Content-Length: 5\r\n\r\n0\r\n\r\n",
      post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
      post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
      post + "Content-Length: 5, 5\r\n\r\nhello",
      post + "Content-Length: +5\r\n\r\nhello",
      post + "Content-Length: -1\r\n\r\n",
      post + "Content-Length: 0x5\r\n\r\nhello",
      post + "Content-Length: 99999999999999999999\r\n\r\n",
      post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
      post + chunked + chunked + "\r\n0\r\n\r\n",
      post + chunked + "\r\nz\r\nhello\r\n0\r\n\r\n",
      post + chunked + "\r\n5\r\nhelloXX0\r\n\r\n",
      post + chunked + "\r\nffffffffffffffffff\r\n",
      "POST / HTTP/1.0\r\n" + kHost + chunked + "\r\n0\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\n" + kHost + kHost + "\r\n",
      "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
      post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
      post + "X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello",
      post + "X: a\r\n\tb\r\nContent-Length: 5\r\n\r\nhello",
      post + "Content-Length: 5\r\nX: a\r\n \r\n\r\nhello",
      post + "Content-Length: 5\r\nAuthorization: Bearer a\r\nauthorization: Bearer b\r\n\r\nhello",
      post +
          "Content-Length: 5\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\n\r\nhello",
      "GET / HTTP/1.1\nHost: localhost\n\n\r\n\r\n",
      "GET http://elsewhere/ HTTP/1.1\r\n" + kHost + "\r\n",
      "GET http:///a HTTP/1.1\r\n" + kHost + "\r\n",
      "GET http HTTP/1.1\r\n" + kHost + "\r\n",
      "GET https HTTP/1.1\r\n" + kHost + "\r\n",
      "GET http: HTTP/1.1\r\n" + kHost + "\r\n",
      "GET http:// HTTP/1.1\r\n" + kHost + "\r\n",
      "GET http://localhost@elsewhere/ HTTP/1.1\r\n" + kHost + "\r\n",
      "GET ftp://localhost/ HTTP/1.1\r\n" + kHost + "\r\n",
      "\nGET / HTTP/1.1\r\n" + kHost + "\r\n",
      "\r\n\r\nGET / HTTP/1.1\r\n" + kHost + "\r\n",
      "\rGET / HTTP/1.1\r\n" + kHost + "\r\n",
      "GET / HTTP/1.1\r\n" + kHost + "A\x01: b\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
  };
  for (const std::string& bytes : refused) {
    const int status = StatusOf(bytes);
    EXPECT_TRUE(status == 400 || status == 413 || status == 505) << status << ": " << bytes;
  }
}

TEST(RequestReader, BoundsHeadBodyAndChunkLines) {
  EXPECT_EQ(
      StatusOf("GET / HTTP/1.1\r\n" + kHost + "A: " + std::string(kHeadBytesMax, 'a') + "\r\n\r\n"),
      431);
  EXPECT_EQ(StatusOf("GET /" + std::string(kHeadBytesMax, 'a')), 431);
  EXPECT_EQ(StatusOf(absl::StrCat("POST / HTTP/1.1\r\n", kHost,
                                  "Content-Length: ", kBodyBytesMax + 1, "\r\n\r\n")),
            413);
  const std::string chunked = "POST / HTTP/1.1\r\n" + kHost + "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(StatusOf(chunked + "7fffffff\r\n"), 413);
  EXPECT_EQ(StatusOf(chunked + "1;" + std::string(2 * kHeadBytesMax, 'x')), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\n" + kHost + "Content-Encoding: gzip\r\n\r\n"), 415);
}

TEST(RequestReader, KnowsWhoWaitsToBeToldToGoOn) {
  RequestReader reader;
  Feed(&reader, "POST / HTTP/1.1\r\n" + kHost + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n",
       5);
  EXPECT_EQ(reader.at(), At::kBody);
  EXPECT_TRUE(reader.expects_continue());
  RequestReader old;
  Feed(&old, "POST / HTTP/1.0\r\n" + kHost + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n",
       5);
  EXPECT_EQ(old.at(), At::kBody);
  EXPECT_FALSE(old.expects_continue());
}

TEST(HostName, IsTheNameWithoutThePort) {
  const std::pair<const char*, const char*> cases[] = {
      {"LocalHost:80", "localhost"},
      {"127.0.0.1", "127.0.0.1"},
      {"[::1]:8000", "::1"},
      {"[::1", ""},
      {"a:b", ""},
      {"a:80:90", ""},
  };
  for (const auto& [host, name] : cases) EXPECT_EQ(HostName(host), name) << host;
  for (const char* name : {"localhost", "a.localhost", "127.9.0.1", "::1"}) {
    EXPECT_TRUE(IsLoopbackName(name)) << name;
  }
  for (const char* name : {"", "example.com", "127.0.0.1.evil.com", "127.1", "127.0.0.256",
                           "localhost.evil.com", "128.0.0.1", "127.0.0.+1"}) {
    EXPECT_FALSE(IsLoopbackName(name)) << name;
  }
}

TEST(HeadText, SaysHowTheBodyEnds) {
  HttpResponse response{.status = 429, .fields = {{"Retry-After", "2"}}};
  EXPECT_EQ(HeadText(response, 3, false, true),
            "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 2\r\n"
            "Content-Length: 3\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(absl::StrContains(HeadText(response, std::nullopt, true, false),
                                "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"));
  EXPECT_EQ(ChunkText("0123456789abcdefg"), "11\r\n0123456789abcdefg\r\n");
  EXPECT_FALSE(IsFieldText("a\r\nb"));
}

}  // namespace
}  // namespace tutti::gateway
