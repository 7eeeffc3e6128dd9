#include "coordinator/service/serve_flags.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/ports.h"
#include "coordinator/limits.h"
#include "model/hub_cache.h"
#include "program/shared_flags.h"
#include "transport/certificate_folder.h"
#include "transport/private_folder.h"

namespace tutti::coordinator {
namespace {

void AddModelFlags(FlagSet* set, ServeFlags* flags) {
  set->Add({
      {.names = "--model", .variable = &flags->model, .help = model::kModelHelp, .required = true},
      {.names = "--revision", .variable = &flags->revision, .help = model::kRevisionHelp},
      {.names = "--draft-model", .variable = &flags->draft_model, .help = model::kDraftModelHelp},
      {.names = "--served-model-name",
       .variable = &flags->served_model_name,
       .help = HelpIn(kCoordinatorFlags, "--served-model-name")},
      {.names = "--chat-template",
       .variable = &flags->chat_template,
       .help = "File of the Jinja template for chats (default: the checkpoint's own)"},
      {.names = "--quantize",
       .variable = &flags->quantise.scheme,
       .help = "Have workers make codes of the matrices while they load them, by rounding to the "
               "nearest: int8, or int4-g128 (a scale for each 128 inputs)"},
      {.names = "--quantize-head",
       .variable = &flags->quantise.head,
       .help = "Codes for the head, too"},
  });
}

void AddPortFlags(FlagSet* set, ServeFlags* flags) {
  CoordinatorOptions* const options = &flags->options;
  options->peer_listen = absl::StrCat("unix:", transport::RuntimeFolder(), "/coordinator.sock");
  transport::TlsFiles& peer_tls = options->peer_tls;
  set->Add({
      {.names = "--listen",
       .variable = &options->listen,
       .help = "Address of the public API; port 0 lets the system choose",
       .check = IsListenAddress(),
       .show_default = true},
      {.names = "--peer-listen",
       .variable = &options->peer_listen,
       .help = "Address workers dial; may be unix:/path",
       .check = IsListenAddress(),
       .show_default = true},
      {.names = "--admin-listen",
       .variable = &options->admin_listen,
       .help = "Address of status and cache look-ups, for operators only: unix:/FOLDER/NAME in a "
               "folder of mode 0700, or host:port with --tls-client-ca; unset: a socket that "
               "tutti status finds by itself",
       .check = IsListenAddress()},
      {.names = "--certs",
       .variable = &flags->certificate_folder,
       .help = "Folder with ca.crt, tls.crt and tls.key, as `tutti certs issue --role coordinator` "
               "makes it: the files of both ports that are not given. --listen is then :50051 and "
               "--peer-listen :50052"},
      {.names = "--tls-cert",
       .variable = &options->tls_certificate,
       .help = "PEM certificate of the public port"},
      {.names = "--tls-key", .variable = &options->tls_key, .help = "PEM key of the public port"},
      {.names = "--tls-client-ca",
       .variable = &options->tls_client_ca,
       .help = "PEM authority that client certificates need"},
      {.names = "--public-without-clients-ca",
       .variable = &options->without_clients_ca,
       .help = "Serve an outside address although --tls-client-ca is not given: to anybody"},
      {.names = "--public-plaintext",
       .variable = &options->plaintext,
       .help = "Serve an outside address without TLS (h2c): something else, such as a mesh's "
               "proxy, encrypts and keeps strangers out. --certs is then for workers' port alone"},
      {.names = "--public-role",
       .variable = &options->public_role,
       .help = HelpIn(kCoordinatorFlags, "--public-role"),
       .check = OneOf("auto,client,gateway"),
       .show_default = true},
      {.names = "--peer-tls-cert",
       .variable = &peer_tls.certificate,
       .help = "PEM certificate of the workers' port"},
      {.names = "--peer-tls-key", .variable = &peer_tls.key, .help = "PEM key of that certificate"},
      {.names = "--peer-tls-ca",
       .variable = &peer_tls.authority,
       .help = "PEM authority that signed the workers'"},
      {.names = "--cluster-secret-file",
       .variable = &options->secret_file,
       .help = "File of the secret that all processes of the cluster know, 32 to 4096 bytes that "
               "its owner alone can read; needed where workers come over TCP without certificates"},
      {.names = "--ready-file",
       .variable = &options->ready_file,
       .help = "Write the public address and whether this coordinator leads or stands by here, as "
               "JSON, once it listens"},
      {.names = "--cluster-id",
       .variable = &options->engine.cluster_id,
       .help = "Workers must be started with the same"},
  });
}

void AddCacheFlags(FlagSet* set, EngineOptions* engine) {
  set->Add({
      {.names = "--block-size",
       .variable = &engine->block_size,
       .help = HelpIn(kCoordinatorFlags, "--block-size"),
       .check = IntegerIn(16, 1024),
       .show_default = true},
      {.names = "--kv-tokens",
       .variable = &engine->kv_tokens_max,
       .help = "KV room in tokens at most; 0: what memory allows",
       .show_default = true},
      {.names = "--enable-prefix-caching,!--no-prefix-caching",
       .variable = &engine->enable_prefix_caching,
       .help = "Keep the KV of prompts and answers for requests that begin with the same tokens",
       .show_default = true},
  });
}

void AddStepFlags(FlagSet* set, ServeFlags* flags) {
  EngineOptions* const engine = &flags->options.engine;
  set->Add({
      {.names = "--max-batch-tokens",
       .variable = &engine->max_batch_tokens,
       .help = HelpIn(kCoordinatorFlags, "--max-batch-tokens"),
       .check = IntegerIn(1, 65536),
       .show_default = true},
      {.names = "--chunk-tokens",
       .variable = &engine->chunk_tokens,
       .help = HelpIn(kCoordinatorFlags, "--chunk-tokens"),
       .check = IntegerIn(0, 65536),
       .show_default = true},
      {.names = "--itl-target",
       .variable = &engine->itl_target,
       .help = HelpIn(kCoordinatorFlags, "--itl-target"),
       .check = MillisecondsIn(0, 600000),
       .show_default = true},
      {.names = "--speculation",
       .variable = &flags->speculation,
       .help = HelpIn(kCoordinatorFlags, "--speculation"),
       .environment = "TUTTI_SPECULATION",
       .check = OneOf("off,lookup,draft")},
      {.names = "--max-num-seqs",
       .variable = &engine->max_sequences,
       .help = HelpIn(kCoordinatorFlags, "--max-num-seqs"),
       .check = IntegerIn(1, 65536),
       .show_default = true},
      {.names = "--max-waiting",
       .variable = &engine->max_waiting,
       .help = HelpIn(kCoordinatorFlags, "--max-waiting"),
       .check = IntegerIn(0, 1000000),
       .show_default = true},
      {.names = "--max-wait",
       .variable = &engine->max_wait,
       .help = HelpIn(kCoordinatorFlags, "--max-wait"),
       .check = AnySeconds(),
       .show_default = true},
  });
}

void AddServiceFlags(FlagSet* set, ServeFlags* flags) {
  EngineOptions& engine = flags->options.engine;
  set->Add({
      {.names = "--shared-cache-domain",
       .variable = &flags->options.share_cache_domain,
       .help = "Let what one tenant's prompts left in the KV cache serve all tenants: their timing "
               "then tells whether another tenant has sent the same text before"},
      {.names = "--max-model-len",
       .variable = &flags->max_model_len,
       .help = HelpIn(kCoordinatorFlags, "--max-model-len"),
       .check = NotNegative()},
      {.names = "--numerics-class",
       .variable = &engine.numerics_class,
       .help = "Compute in this class only, as tutti status shows it, of this build's numerics "
               "revision where none is named (cpu-f32.2); unset: the best that all workers can "
               "compute that have joined when streams begin"},
      {.names = "--mix-numerics",
       .variable = &engine.mix_numerics,
       .help = "Allow one pipeline of several numerics classes: answers then depend on the layout"},
      {.names = "--lease-ms",
       .variable = &engine.lease,
       .help = HelpIn(kCoordinatorFlags, "--lease-ms"),
       .check = MillisecondsIn(200, 600000),
       .show_default = true},
      {.names = "--recovery-timeout",
       .variable = &engine.recovery_timeout,
       .help = HelpIn(kCoordinatorFlags, "--recovery-timeout"),
       .check = AnySeconds(),
       .show_default = true},
      {.names = "--reform-after",
       .variable = &engine.reform_after,
       .help = HelpIn(kCoordinatorFlags, "--reform-after"),
       .check = AnySeconds(),
       .show_default = true},
      {.names = "--partial-recompute",
       .variable = &flags->partial_recompute,
       .help = HelpIn(kCoordinatorFlags, "--partial-recompute"),
       .environment = "TUTTI_PARTIAL_RECOMPUTE",
       .check = OneOf("on,off"),
       .show_default = true},
      {.names = "--kept-rows",
       .variable = &engine.kept_rows_bytes,
       .help = HelpIn(kCoordinatorFlags, "--kept-rows"),
       .environment = "TUTTI_KEPT_ROWS",
       .check = IsByteCount()},
  });
  AddDaemonFlags("Seconds running requests get to finish; a second signal ends them", set,
                 &flags->daemon);
}

void AddWeightsFlags(FlagSet* set, CoordinatorOptions* options) {
  set->Add({
      {.names = "--weights-rate",
       .variable = &options->weights_bytes_per_second,
       .help =
           "Bytes a second, such as 200MB, that workers without the checkpoint get of it, all of "
           "them together; 0: no limit",
       .environment = "TUTTI_WEIGHTS_RATE",
       .check = IsByteCount(),
       .show_default = true},
  });
}

void AddMetricsFlags(FlagSet* set, ServeFlags* flags) {
  set->Add({
      {.names = "--metrics",
       .variable = &flags->options.metrics_listen,
       .help = "Serve /metrics for Prometheus, and /healthz, at this address and port, over plain "
               "HTTP to everybody who reaches it; unset: nowhere",
       .environment = "TUTTI_METRICS"},
      {.names = "--metrics-alias",
       .variable = &flags->metrics_alias,
       .help = "vllm: metrics have vLLM's names too, beside ours",
       .check = OneOf("vllm")},
      {.names = "--traces",
       .variable = &flags->options.traces.file,
       .help = HelpIn(kTraceFlags, "--traces")},
      {.names = "--otlp-endpoint",
       .variable = &flags->options.traces.endpoint,
       .help = HelpIn(kTraceFlags, "--otlp-endpoint")},
  });
}

}  // namespace

void AddServeFlags(FlagSet* set, ServeFlags* flags) {
  set->AddVersion(BuildStamp());
  set->ReadEnvironment(kEnvironmentPrefix);
  set->AddFile("Read options from this file (TOML; the keys are the options without --)");
  AddModelFlags(set, flags);
  AddPortFlags(set, flags);
  AddLayoutFlags(set, &flags->layout, &flags->options.engine);
  AddCacheFlags(set, &flags->options.engine);
  AddStepFlags(set, flags);
  AddServiceFlags(set, flags);
  AddWeightsFlags(set, &flags->options);
  AddMetricsFlags(set, flags);
  AddLeaseFlags(set, &flags->lease);
}

absl::Status ReadCertificateFolder(const FlagSet& set, ServeFlags* flags) {
  if (flags->certificate_folder.empty()) return absl::OkStatus();
  CoordinatorOptions& options = flags->options;
  transport::TlsFiles clients = {options.tls_certificate, options.tls_key, options.tls_client_ca};
  for (transport::TlsFiles* const files : {&clients, &options.peer_tls}) {
    if (files == &clients && options.plaintext) continue;
    TUTTI_RETURN_IF_ERROR(
        Annotate(transport::FillFromFolder(flags->certificate_folder, files), "--certs"));
  }
  options.tls_certificate = clients.certificate;
  options.tls_key = clients.key;
  if (!options.without_clients_ca) options.tls_client_ca = clients.authority;
  if (!set.Given("--listen")) options.listen = absl::StrCat(":", kPublicPort);
  if (!set.Given("--peer-listen")) options.peer_listen = absl::StrCat(":", kPeerPort);
  return absl::OkStatus();
}

}  // namespace tutti::coordinator
