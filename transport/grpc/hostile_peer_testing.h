// Support for tests of peers that do not keep to the protocol: a client that sends any bytes, and a
// listener with one well-behaved link beside it.
#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "transport/grpc/grpc_link.h"
#include "transport/link_testing.h"

namespace tutti::transport {

inline grpc::ByteBuffer Bytes(const std::string& bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return grpc::ByteBuffer(&slice, 1);
}

// A client that sends any bytes, one blocking operation at a time.
class RawClient {
 public:
  explicit RawClient(const std::string& target,
                     const std::string& method = "/tutti.peer.v1.Peer/Connect",
                     grpc_compression_algorithm compression = GRPC_COMPRESS_NONE) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
    context_.set_compression_algorithm(compression);
    stream_ = grpc::GenericStub(channel_).PrepareCall(&context_, method, &queue_);
    stream_->StartCall(this);
    EXPECT_TRUE(Next());
  }
  ~RawClient() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  bool Write(const grpc::ByteBuffer& bytes) {
    stream_->Write(bytes, this);
    return Next();
  }
  bool WritesDone() {
    stream_->WritesDone(this);
    return Next();
  }
  bool Read(grpc::ByteBuffer* bytes) {
    stream_->Read(bytes, this);
    return Next();
  }
  grpc::Status Finish() {
    grpc::Status status;
    stream_->Finish(&status, this);
    EXPECT_TRUE(Next());
    return status;
  }
  void Cancel() { context_.TryCancel(); }

 private:
  bool Next() {
    void* tag;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + kPatience;
    EXPECT_EQ(queue_.AsyncNext(&tag, &ok, deadline), grpc::CompletionQueue::GOT_EVENT);
    return ok;
  }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

// A listener with one well-behaved link, and the inboxes of it and of the others that come.
class HostilePeerTest : public testing::Test {
 protected:
  HostilePeerTest() {
    auto server = GrpcPeerServer::Start({"127.0.0.1:0", {}}, [this](std::unique_ptr<Link> link) {
      const MutexLock lock(&mutex_);
      const bool is_first = good_link_ == nullptr;
      (is_first ? good_link_ : bad_link_) = std::move(link);
      changed_.NotifyAll();
      return (is_first ? good_ : bad_).MakeHandler();
    });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    dialer_ = *GrpcDialer::Create();
    link_ = dialer_->Dial(server_->address(), good_dialed_.MakeHandler());
    EXPECT_TRUE(link_->Send(NumberedFrame(0)).ok());
    EXPECT_TRUE(good_.WaitForFrames(1));
  }

  ~HostilePeerTest() override {
    // The link that did nothing wrong still works, both ways.
    EXPECT_TRUE(link_->Send(NumberedFrame(1), OwnedPayload(100000)).ok());
    EXPECT_TRUE(good_.WaitForFrames(2));
    {
      const MutexLock lock(&mutex_);
      EXPECT_TRUE(good_link_->Send(NumberedFrame(1)).ok());
    }
    EXPECT_TRUE(good_dialed_.WaitForFrames(1));
    link_.reset();
    server_.reset();
    dialer_.reset();
    EXPECT_EQ(bad_.violations + good_.violations + good_dialed_.violations, 0);
  }

  Link* WaitForBadLink() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(&mutex_);
    while (bad_link_ == nullptr && changed_.WaitUntil(&mutex_, deadline)) continue;
    EXPECT_NE(bad_link_, nullptr);
    return bad_link_.get();
  }

  Inbox good_, good_dialed_, bad_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::unique_ptr<Link> good_link_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Link> bad_link_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<GrpcPeerServer> server_;
  std::unique_ptr<GrpcDialer> dialer_;
  std::unique_ptr<Link> link_;
};

}  // namespace tutti::transport
