#include "coordinator/fleet/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/protocol.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::Hello Hello(const std::string& id) {
  v1::Hello hello;
  hello.set_protocol_version(kPeerProtocolVersion);
  hello.set_cluster_id("c");
  hello.set_worker_id(id);
  hello.set_purpose(v1::LINK_PURPOSE_CONTROL);
  hello.set_build("b");
  hello.set_numerics_class("cpu-f32");
  hello.set_model_fingerprint("f");
  hello.set_memory_bytes(1000);
  return hello;
}

MembershipOptions Options() {
  return {.cluster_id = "c", .model_fingerprint = "f", .memory_bytes_min = {1000, 2000}};
}

TEST(NaturalOrderTest, ReadsNumbersAsNumbers) {
  EXPECT_TRUE(NaturallyBefore("w2", "w10"));
  EXPECT_FALSE(NaturallyBefore("w10", "w2"));
  EXPECT_TRUE(NaturallyBefore("w9.z", "w10.a"));
  EXPECT_TRUE(NaturallyBefore("rack1-gpu11", "rack2-gpu2"));
  EXPECT_TRUE(NaturallyBefore("w", "w0"));
  EXPECT_TRUE(NaturallyBefore("a", "b"));
  EXPECT_FALSE(NaturallyBefore("a", "a"));
  EXPECT_TRUE(NaturallyBefore("", "a"));
  // More digits than any integer type holds.
  EXPECT_TRUE(NaturallyBefore("w99999999999999999999999", "w100000000000000000000000"));
  // Equal numbers, different spelling: some order, and only one.
  EXPECT_NE(NaturallyBefore("w01", "w1"), NaturallyBefore("w1", "w01"));
  EXPECT_TRUE(NaturallyBefore("w01a", "w1b"));
}

TEST(NaturalOrderTest, IsAnOrder) {
  const std::vector<std::string> names = {"w",   "w0", "w00", "w1",   "w01",   "w1a",   "w2", "w10",
                                          "w1-", "1",  "01",  "a1b2", "a01b2", "a1b10", ""};
  for (const auto& a : names) {
    EXPECT_FALSE(NaturallyBefore(a, a)) << a;
    for (const auto& b : names) {
      if (a != b) {
        EXPECT_NE(NaturallyBefore(a, b), NaturallyBefore(b, a)) << a << " " << b;
      }
      for (const auto& c : names) {
        if (NaturallyBefore(a, b) && NaturallyBefore(b, c)) {
          EXPECT_TRUE(NaturallyBefore(a, c)) << a << " " << b << " " << c;
        }
      }
    }
  }
}

TEST(MembershipTest, SaysWhatDiffersWithBothValues) {
  Membership membership(Options());
  EXPECT_TRUE(membership.Check(Hello("w1")).ok());
  const auto refusal = [&](void (*change)(v1::Hello*)) {
    v1::Hello hello = Hello("w1");
    change(&hello);
    return membership.Check(hello).ToString();
  };
  EXPECT_THAT(refusal([](auto* h) { h->set_cluster_id("d"); }),
              HasSubstr("cluster id of the worker is \"d\", of the coordinator \"c\""));
  EXPECT_EQ(refusal([](auto* h) { h->set_build("b2"); }), "OK") << "another that speaks alike";
  EXPECT_THAT(refusal([](auto* h) { h->set_model_fingerprint(""); }), HasSubstr("fingerprint"));
  EXPECT_EQ(refusal([](auto* h) { h->set_draft_fingerprint("d"); }), "OK") << "nobody asks it";
  const auto versions = [](uint32_t of_worker) {
    return absl::StrCat("protocol version of the worker is \"", of_worker,
                        "\", of the coordinator \"", kPeerProtocolVersion, "\"");
  };
  EXPECT_THAT(refusal([](auto* h) { h->set_protocol_version(kPeerProtocolVersion - 1); }),
              AllOf(HasSubstr(versions(kPeerProtocolVersion - 1)),
                    HasSubstr(": the worker is of an older build; start the worker from")));
  EXPECT_THAT(refusal([](auto* h) { h->set_protocol_version(kPeerProtocolVersion + 1); }),
              AllOf(HasSubstr(versions(kPeerProtocolVersion + 1)),
                    HasSubstr(": the coordinator is of an older build; start the worker from"),
                    HasSubstr("or update the coordinator too")));
  EXPECT_THAT(refusal([](auto* h) { h->set_purpose(v1::LINK_PURPOSE_ACTIVATION); }),
              HasSubstr("control"));
  EXPECT_THAT(
      refusal([](auto* h) { h->set_memory_bytes(999); }),
      AllOf(HasSubstr("offers 999 B of memory; the smallest stage of this model needs 1000"),
            HasSubstr("give the worker more with --memory; `tutti up`: --memory-per-")));
  EXPECT_THAT(refusal([](auto* h) { h->set_memory_bytes(-1); }), HasSubstr("RESOURCE_EXHAUSTED"));
  EXPECT_THAT(refusal([](auto* h) { h->set_device_kind(v1::DEVICE_KIND_CUDA); }),
              HasSubstr("offers 1000 B of memory; the smallest stage of this model needs 2.0 KiB"))
      << "a GPU needs more";
  EXPECT_THAT(refusal([](auto* h) { h->set_device_kind(static_cast<v1::DeviceKind>(7)); }),
              HasSubstr("device_kind is 7"));
  EXPECT_THAT(refusal([](auto* h) { h->set_cluster_id("a\n\x01z"); }), HasSubstr("a\\n\\x01z"))
      << "bytes of others are escaped";
  EXPECT_EQ(refusal([](auto* h) { h->set_advertised_address("10.0.0.7:50060"); }), "OK");
  EXPECT_THAT(refusal([](auto* h) { h->set_advertised_address("unix:/run/x\n"); }),
              HasSubstr("the announced address \"unix:/run/x\\n\" "));
}

TEST(MembershipTest, WhereThereIsADraftModelAllHaveTheSame) {
  MembershipOptions options = Options();
  options.draft_fingerprint = "d1";
  const Membership membership(options);
  v1::Hello hello = Hello("w1");
  EXPECT_EQ(membership.Check(hello).message(),
            "draft model fingerprint of the worker is \"\", of the coordinator \"d1\"; "
            "start both with the same --draft-model");
  hello.set_draft_fingerprint("d2");
  EXPECT_THAT(membership.Check(hello).ToString(),
              AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("\"d2\"")));
  hello.set_draft_fingerprint("d1");
  EXPECT_TRUE(membership.Check(hello).ok());
}

v1::Hello Offering(const std::string& id, const std::vector<std::pair<std::string, double>>& all) {
  v1::Hello hello = Hello(id);
  hello.set_numerics_class(all[0].first);
  for (const auto& [name, flops] : all) {
    v1::NumericsOffer* const offer = hello.add_numerics();
    offer->set_numerics_class(name);
    offer->set_flops_per_second(flops);
    offer->set_read_bytes_per_second(flops == 0 ? 0 : 1e9);
  }
  hello.set_flops_per_second(all[0].second);
  hello.set_read_bytes_per_second(all[0].second == 0 ? 0 : 1e9);
  return hello;
}

TEST(MembershipTest, AClassIsChosenFromAllAndThenHolds) {
  Membership membership(Options());
  EXPECT_EQ(membership.numerics_class(), "");
  Worker* const w1 = membership.Join(LinkKey(1), Offering("w1", {{"a", 2e9}, {"b", 1e9}}), {});
  membership.ChooseClass("");
  EXPECT_EQ(membership.numerics_class(), "a");
  EXPECT_EQ(w1->speed.flops_per_second, 2e9);
  const v1::Hello other = Offering("w2", {{"b", 1e9}});
  EXPECT_TRUE(membership.Check(other).ok()) << "nothing is settled";
  Worker* const w2 = membership.Join(LinkKey(2), other, {});
  EXPECT_FALSE(membership.CanCompute(*w2));
  membership.ChooseClass("");
  EXPECT_EQ(membership.numerics_class(), "b");
  EXPECT_TRUE(membership.CanCompute(*w2));
  EXPECT_EQ(membership.ClassOf(*w1), "b");
  EXPECT_EQ(w1->speed.flops_per_second, 1e9) << "its speed in the class that it computes in";
  membership.SettleClass(true);
  EXPECT_THAT(membership.Check(Offering("w3", {{"a", 0}})).ToString(),
              AllOf(HasSubstr("numerics class of the worker is \"a\", of the pipeline \"b\""),
                    HasSubstr("no class in common with all workers that serve in b"),
                    HasSubstr("--mix-numerics")));
  EXPECT_THAT(membership.Check(Offering("w3", {{"b", 0}, {"a", 0}})).ToString(), "OK");
  v1::GetStatusResponse status;
  membership.FillStatus(&status);
  EXPECT_EQ(status.numerics().numerics_class(), "b");
  EXPECT_TRUE(status.numerics().settled());
  EXPECT_EQ(status.numerics().workers(0).classes(1), "b");
  EXPECT_EQ(status.numerics().workers(0).flops_per_second(0), 2e9);
}

TEST(MembershipTest, TheRefusalSaysWhatCanBeDone) {
  Membership membership(Options());
  membership.Join(LinkKey(1), Offering("w1", {{"a", 2e9}, {"b", 1e9}}), {});
  membership.ChooseClass("");
  membership.SettleClass(true);
  EXPECT_THAT(membership.Check(Offering("w2", {{"b", 0}})).ToString(),
              HasSubstr("it can compute in b, as all the others can: start the coordinator with "
                        "--numerics-class b"));
  MembershipOptions told = Options();
  told.numerics_class = "a";
  EXPECT_THAT(Membership(told).Check(Offering("w2", {{"b", 0}})).ToString(),
              HasSubstr("of the pipeline \"a\": results would depend on which worker computes "
                        "them; the coordinator's --numerics-class says so"));
}

TEST(MembershipTest, BelievesNoNonsenseAboutClasses) {
  const Membership membership(Options());
  v1::Hello hello = Offering("w1", {{"a", 1e9}, {"b", 1e9}});
  EXPECT_TRUE(membership.Check(hello).ok());
  hello.set_numerics_class("b");
  EXPECT_THAT(membership.Check(hello).ToString(),
              HasSubstr("computes in numerics class \"b\", and the first that it can compute is"));
  hello = Offering("w1", {{"a", 1e9}, {"b\n", 1e9}});
  EXPECT_THAT(membership.Check(hello).ToString(), HasSubstr("numerics class \"b\\n\"; a name"));
  hello = Offering("w1", {{std::string(65, 'a'), 1e9}});
  EXPECT_THAT(membership.Check(hello).ToString(), HasSubstr("a name is 1 to 64 of"));
  hello = Offering("w1", {{"a", 1e9}, {"b", -1}});
  EXPECT_THAT(membership.Check(hello).ToString(), HasSubstr("computes -1 operations/s"));
  hello = Offering("w1", std::vector(9, std::pair<std::string, double>("a", 1e9)));
  EXPECT_THAT(membership.Check(hello).ToString(), HasSubstr("names 9 numerics classes, at most 8"));
}

// Else a worker that names others each time would fill the memory.
TEST(MembershipTest, RemembersSpeedsOfTheClassesThatAWorkerNames) {
  Membership membership(Options());
  const auto join = [&](const std::vector<std::pair<std::string, double>>& all) {
    const auto speeds = membership.Join(LinkKey(1), Offering("w1", all), {})->speeds;
    membership.Remove(LinkKey(1));
    return speeds;
  };
  join({{"a", 1e9}, {"b", 1e9}});
  EXPECT_EQ(join({{"a", 2e9}, {"b", 2e9}}).at("b").flops_per_second, 1e9) << "as it was at first";
  join({{"a", 3e9}, {"c", 3e9}});
  const auto speeds = join({{"a", 4e9}, {"b", 4e9}});
  EXPECT_EQ(speeds.at("a").flops_per_second, 1e9);
  EXPECT_EQ(speeds.at("b").flops_per_second, 4e9) << "it was not named in between";
}

// A speed that is too low, because others had the machine, is not kept for good.
TEST(MembershipTest, ASpeedMeasuredBesideOthersIsKeptUntilAQuieterOne) {
  Membership membership(Options());
  const auto join = [&](double flops, double others_share) {
    v1::Hello hello = Offering("w1", {{"a", flops}});
    hello.set_speed_others_share(others_share);
    v1::WorkerStatus status;
    FillWorkerStatus(*membership.Join(LinkKey(1), hello, {}), {}, &status);
    membership.Remove(LinkKey(1));
    return std::pair(status.flops_per_second(), status.speed_others_share());
  };
  EXPECT_EQ(join(1e9, 0.6), std::pair(1e9, 0.6));
  EXPECT_EQ(join(2e9, 0.6), std::pair(1e9, 0.6)) << "no better measured";
  EXPECT_EQ(join(3e9, 0.2), std::pair(3e9, 0.2));
  EXPECT_EQ(join(0, 0), std::pair(0.0, 0.0)) << "none is not better";
  EXPECT_EQ(join(4e9, 0), std::pair(4e9, 0.0));
  EXPECT_EQ(join(5e9, 0.1), std::pair(4e9, 0.0));
}

TEST(MembershipTest, BelievesSharesThatCanBe) {
  const Membership membership(Options());
  v1::Hello hello = Hello("w1");
  for (const double share : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    hello.set_speed_others_share(share);
    EXPECT_THAT(membership.Check(hello).ToString(), HasSubstr("a share is 0 to 1")) << share;
  }
  hello.set_speed_others_share(1);
  EXPECT_TRUE(membership.Check(hello).ok());
}

TEST(MembershipTest, OneWorkerPerId) {
  Membership membership(Options());
  membership.Join(LinkKey(1), Hello("w1"), Instant());
  EXPECT_TRUE(absl::IsAlreadyExists(membership.Check(Hello("w1"))));
  EXPECT_EQ(membership.FindId("w1")->link, LinkKey(1));
  membership.Remove(LinkKey(1));
  EXPECT_TRUE(membership.Check(Hello("w1")).ok());
  EXPECT_EQ(membership.FindId("w1"), nullptr);
  EXPECT_EQ(membership.Find(LinkKey(1)), nullptr);
}

TEST(MembershipTest, ListsInBothOrders) {
  Membership membership(Options());
  for (const auto& [link, id] : {std::pair{1, "w10"}, {2, "w9"}, {3, "w2"}}) {
    membership.Join(LinkKey(link), Hello(id), Instant());
  }
  const auto ids = [](const std::vector<Worker*>& workers) {
    std::vector<std::string> names;
    for (const Worker* worker : workers) names.push_back(worker->id());
    return names;
  };
  EXPECT_THAT(ids(membership.All()), ElementsAre("w10", "w9", "w2"));
  EXPECT_THAT(ids(membership.InOrder()), ElementsAre("w2", "w9", "w10"));
}

TEST(FetchTest, SaysHowFarItIsAndBelievesNoNonsense) {
  v1::ShardProgress progress;
  EXPECT_TRUE(CheckFetch(progress).ok());
  EXPECT_EQ(FetchText(progress), "");
  progress.set_fetched_bytes(int64_t{3} << 30);
  progress.set_fetch_bytes(int64_t{8} << 30);
  progress.set_fetch_bytes_per_second(210 << 20);
  EXPECT_TRUE(CheckFetch(progress).ok());
  EXPECT_EQ(FetchText(progress),
            "fetched 37 %, 3.0 GiB of 8.0 GiB, 210.0 MiB/s, from the coordinator");
  progress.set_fetched_bytes(int64_t{8} << 30);
  EXPECT_EQ(FetchText(progress), "");
  progress.set_fetched_bytes((int64_t{8} << 30) + 1);
  EXPECT_FALSE(CheckFetch(progress).ok());
  progress.set_fetched_bytes(-1);
  EXPECT_FALSE(CheckFetch(progress).ok());
  progress.set_fetched_bytes(1);
  for (const double pace :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    progress.set_fetch_bytes_per_second(pace);
    EXPECT_FALSE(CheckFetch(progress).ok()) << pace;
  }
}

}  // namespace
}  // namespace tutti::coordinator
