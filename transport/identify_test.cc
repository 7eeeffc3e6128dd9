#include "transport/identify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/limits.h"

namespace tutti::transport {
namespace {

constexpr char kName[] = "tutti://worker/w1";

std::shared_ptr<const ClusterSecret> FilledSecret(char fill = 's') {
  return std::make_shared<const ClusterSecret>(std::string(32, fill));
}

TEST(IdentifyTest, TwoThatKnowTheSecretProveIt) {
  ListenerProof listener(FilledSecret(), kName);
  DialerProof dialer(FilledSecret(), kName);
  const auto answer = listener.Handle(dialer.First(), 0);
  ASSERT_TRUE(answer.ok() && answer->has_value());
  EXPECT_LE(static_cast<int64_t>((*answer)->ByteSizeLong()), kIdentifyFrameBytesMax);
  const auto last = dialer.Handle(**answer, 0);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_TRUE(dialer.proved());
  EXPECT_FALSE(listener.proved());
  const auto done = listener.Handle(*last, 0);
  ASSERT_TRUE(done.ok());
  EXPECT_FALSE(done->has_value());
  EXPECT_TRUE(listener.proved());
  EXPECT_FALSE(listener.Handle(*last, 0).ok()) << "nothing more is handled";
}

TEST(IdentifyTest, AnotherSecretOrNameProvesNothing) {
  for (const auto& [secret, name] :
       {std::pair<char, const char*>{'x', kName}, {'s', "tutti://coordinator"}, {'s', ""}}) {
    ListenerProof listener(FilledSecret(secret), name);
    DialerProof dialer(FilledSecret(), kName);
    const auto answer = listener.Handle(dialer.First(), 0);
    ASSERT_TRUE(answer.ok());
    EXPECT_TRUE(absl::IsUnauthenticated(dialer.Handle(**answer, 0).status()));
    EXPECT_FALSE(dialer.proved());
  }
}

// Whoever does not know the secret returns what it was given, to the same end or to another.
TEST(IdentifyTest, NothingCanBeReflected) {
  // A listener's answer, given back to it as the dialer's proof.
  ListenerProof listener(FilledSecret(), kName);
  v1::Frame first = DialerProof(FilledSecret(), kName).First();
  v1::Frame answer = **listener.Handle(first, 0);
  answer.mutable_identify()->clear_nonce();
  EXPECT_TRUE(absl::IsUnauthenticated(listener.Handle(answer, 0).status()));
  EXPECT_FALSE(listener.proved());
  // A dialer's own nonce, proved by a second link that the attacker opened to a listener.
  DialerProof dialer(FilledSecret(), kName);
  ListenerProof other(FilledSecret(), "tutti://worker/w2");
  const auto relayed = other.Handle(dialer.First(), 0);
  EXPECT_FALSE(dialer.Handle(**relayed, 0).ok()) << "the proof of another listener";
  // The proof of an earlier link.
  ListenerProof before(FilledSecret(), kName), after(FilledSecret(), kName);
  DialerProof honest(FilledSecret(), kName);
  const v1::Frame proof = *honest.Handle(**before.Handle(honest.First(), 0), 0);
  ASSERT_TRUE(after.Handle(honest.First(), 0).ok());
  EXPECT_FALSE(after.Handle(proof, 0).ok()) << "replayed";
}

v1::Frame WithSizes(size_t nonce, size_t proof) {
  v1::Frame frame;
  frame.mutable_identify()->set_nonce(std::string(nonce, 'n'));
  frame.mutable_identify()->set_proof(std::string(proof, 'p'));
  return frame;
}

TEST(IdentifyTest, EveryOtherFirstFrameIsRefusedWithTheSameText) {
  v1::Frame hello;
  hello.mutable_hello()->set_worker_id("w1");
  v1::Frame with_epoch = WithSizes(32, 0);
  with_epoch.set_epoch(1);
  v1::Frame unknown = WithSizes(32, 0);
  unknown.mutable_identify()
      ->GetReflection()
      ->MutableUnknownFields(unknown.mutable_identify())
      ->AddLengthDelimited(9, std::string(200, 'x'));
  for (const v1::Frame& frame :
       {v1::Frame(), hello, with_epoch, unknown, WithSizes(0, 0), WithSizes(31, 0),
        WithSizes(33, 0), WithSizes(32, 32), WithSizes(0, 32), WithSizes(1000, 0)}) {
    ListenerProof listener(FilledSecret(), kName);
    EXPECT_EQ(listener.Handle(frame, 0).status(), NotIdentified());
    EXPECT_EQ(listener.Handle(WithSizes(32, 0), 0).status(), NotIdentified()) << "no second try";
  }
  ListenerProof listener(FilledSecret(), kName);
  EXPECT_EQ(listener.Handle(WithSizes(32, 0), 1).status(), NotIdentified()) << "a payload";
}

TEST(IdentifyTest, AProofIsTriedOnce) {
  ListenerProof listener(FilledSecret(), kName);
  ASSERT_TRUE(listener.Handle(WithSizes(32, 0), 0).ok());
  EXPECT_FALSE(listener.Handle(WithSizes(0, 32), 0).ok());
  EXPECT_FALSE(listener.Handle(WithSizes(0, 32), 0).ok());
  EXPECT_FALSE(listener.proved());
}

}  // namespace
}  // namespace tutti::transport
