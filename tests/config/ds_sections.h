/* ds_sections.h - sections of DeepSpeed's JSON that count once they are enabled, as test_deepspeed_json.c reads them.
 */
#ifndef TX_TESTS_CONFIG_DS_SECTIONS_H
#define TX_TESTS_CONFIG_DS_SECTIONS_H

#define CURRICULUM(config)                                                                                   \
    "{\"curriculum_learning\": {\"enabled\": true, \"curriculum_type\": \"seqlen\", \"min_difficulty\": 8, " \
    "\"max_difficulty\": 16, " config "}}"
#define DROPPING                                                                                                  \
    "{\"data_efficiency\": {\"enabled\": true, \"data_routing\": {\"enabled\": true, \"random_ltd\": {"           \
    "\"enabled\": true, \"total_layer_num\": 4, \"random_ltd_layer_num\": 2, \"random_ltd_layer_id\": [1, 3], "   \
    "\"random_ltd_schedule\": {\"min_value\": 8, \"max_value\": 16, \"schedule_config\": {\"require_steps\": 9, " \
    "\"seq_per_step\": 4}}}}}}"
#define RISING                                                                                           \
    CURRICULUM("\"schedule_type\": \"fixed_root\", \"schedule_config\": {\"total_curriculum_step\": 9, " \
               "\"difficulty_step\": 4, \"root_degree\": 2}")
#define LISTED                                                                                              \
    CURRICULUM("\"schedule_type\": \"fixed_discrete\", \"schedule_config\": {\"difficulty\": [8, 12, 16], " \
               "\"max_step\": [3, 5]}")

#define DRAWN                                                                                                        \
    "{\"data_efficiency\": {\"enabled\": true, \"seed\": 7, \"data_sampling\": {\"enabled\": true, \"num_epochs\": " \
    "2, "                                                                                                            \
    "\"curriculum_learning\": {\"enabled\": true, \"data_cluster_path\": \"d\", \"curriculum_metrics\": {}}}}}"

#endif
