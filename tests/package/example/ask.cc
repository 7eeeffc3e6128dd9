// Asks a Tutti service one question:  ask ADDRESS QUESTION
#include <cstdio>

#include "base/retry_delay.h"
#include "client/client.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  tutti::client::ClientOptions options;
  options.address = argv[1];
  const auto client = tutti::client::Client::Create(options);
  if (!client.ok()) return 2;
  tutti::v1::GenerateRequest request;
  tutti::v1::ChatMessage* const message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content(argv[2]);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_sampling()->set_max_tokens(16);
  const auto finishes =
      (*client)->Generate(request, {}, [](const tutti::v1::GenerateResponse& response) {
        std::fputs(response.text().c_str(), stdout);
        return absl::OkStatus();
      });
  if (!finishes.ok()) {
    std::fprintf(stderr, "ask: %s%s\n", std::string(finishes.status().message()).c_str(),
                 tutti::RetryDelayOf(finishes.status()) ? " (try again later)" : "");
    return 1;
  }
  std::puts("");
  return 0;
}
