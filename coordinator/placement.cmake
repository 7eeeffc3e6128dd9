# Which devices serve which layers: pure arithmetic, also behind `tutti plan`.
tutti_library(placement
  SOURCES cluster_plan.cc device_map.cc layout_flags.cc max_memory.cc module_map.cc
          nearest_name.cc placement.cc placement_cost.cc placement_modes.cc placement_refusal.cc placement_split.cc
          plan_prediction.cc step_cost.cc
  DEPS tutti_base tutti_model absl::strings absl::str_format nlohmann_json::nlohmann_json)

tutti_test(placement_test SOURCES cluster_plan_test.cc device_map_test.cc layout_flags_test.cc max_memory_test.cc module_map_test.cc placement_test.cc DEPS tutti_placement)
