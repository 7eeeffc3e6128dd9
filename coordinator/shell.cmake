# The shell around the pure core: threads, gRPC, files.

tutti_library(coordinator
  SOURCES admin_service.cc chat_messages.cc coordinator.cc engine_loop.cc generate_stream.cc
          generation_service.cc message_parser.cc output_hub.cc request_builder.cc served_model.cc tenant.cc work_pool.cc
  DEPS tutti_coordinator_core tutti_grpc_transport tutti_text tutti_model tutti_grpc
       gRPC::grpc++_reflection tutti_log nlohmann_json::nlohmann_json)

tutti_binary(tutti-coordinator SOURCES main.cc DEPS tutti_coordinator CLI11::CLI11)

tutti_test(coordinator_shell_test
  SOURCES chat_messages_test.cc message_parser_test.cc output_hub_test.cc request_builder_test.cc
          tenant_test.cc
  DEPS tutti_coordinator)
