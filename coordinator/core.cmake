# The engine and what it decides with: no thread, no socket, no gRPC header on the include path.
tutti_library(coordinator_core
  SOURCES admission_queue.cc backlog.cc block_pool.cc device_numbers.cc engine.cc engine_pipelines.cc
          engine_requests.cc engine_workers.cc forming.cc kv_cache.cc kv_directory.cc layout_choice.cc
          membership.cc pace_watch.cc
          pipeline.cc pipeline_status.cc prefix_hash.cc request_table.cc router.cc scheduler.cc step_rate.cc
          step_window.cc
  DEPS tutti_base tutti_proto tutti_model tutti_placement absl::flat_hash_map absl::flat_hash_set
       absl::strings absl::str_format)

tutti_test(coordinator_core_test
  SOURCES admission_queue_test.cc backlog_test.cc block_pool_test.cc device_numbers_test.cc
          engine_layout_test.cc engine_pace_test.cc engine_test.cc kv_directory_test.cc
          membership_test.cc pace_watch_test.cc prefix_hash_test.cc request_table_test.cc router_test.cc
          scheduler_reuse_test.cc scheduler_test.cc step_rate_test.cc step_window_test.cc
  DEPS tutti_coordinator_core)
