/* doctor.c - what this machine has, what triax will use of it, and a self-test of a few seconds. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <utf8proc.h>

#include "api/engine_internal.h"
#include "api/gpus.h"
#include "api/processor_name.h"
#include "backend/backend.h"
#include "backend/gpu_module.h"
#include "base/cores.h"
#include "base/file.h"
#include "base/log.h"
#include "predict/measure.h"
#include "triax/engine.h"
#include "triax/jobs.h"

#define TINY_FLAGS                                                                                                    \
    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 "           \
    "--micro-batch-size 2 --global-batch-size 4 --train-iters 10 --lr 1e-3 --lr-decay-style cosine --data-path none " \
    "--tokenizer-type NullTokenizer --vocab-size 509 --hidden-dropout 0.1 --attention-dropout 0.1 "
#define TINY_VOCAB 509
#define TINY_ROW   33 /* seq-length + 1 */

/* ---- what there is ---- */

static void report_machine(void)
{
    char cpu[128], memory[64];
    struct utsname os;
    if (uname(&os)) snprintf(os.release, sizeof os.release, "unknown");
    tx__processor_name(cpu, sizeof cpu);
    tx__proc_value("/proc/meminfo", "MemAvailable", memory, sizeof memory);
    tx_info("machine");
    tx_info("  processor        %s, %ld cores for this process", cpu, sysconf(_SC_NPROCESSORS_ONLN));
    tx_info("  memory           %.1f GiB, %.1f GiB available",
            (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 1073741824.0,
            strtod(memory, NULL) / 1048576.0);
    tx_info("  system           Linux %s", os.release);
}

static tx_status report_use(const tx_config *cfg)
{
    tx_ctx c;
    char threads[400];
    TX_TRY(tx_ctx_init(&c, tx_device_choice_word(cfg->device), (int)cfg->threads));
    tx_threads_describe(threads, sizeof threads, c.n_threads);
    tx_info("triax %s will use", tx_version());
    tx_info("  backend          %s: %s", c.backend->name, c.backend->describe());
    tx_info("  threads          %s", threads);
    tx_info("  libraries        Jansson %s, utf8proc %s", jansson_version_str(), utf8proc_version());
    tx_info("  numbers          fp32, bf16, fp16");
    tx_ctx_deinit(&c);
    return TX_OK;
}

static void report_gpus(void)
{
    const tx_gpu_module *m;
    tx_gpu_info gpu[TX_GPU_MAX];
    tx_gpu_library lib[TX_GPU_MAX_LIBRARIES];
    int n = 0, n_libs = 0;
    tx_info("GPUs");
    tx_gpus_environment("  environment      ");
    if (tx_gpu_module_get(&m) || m->list(gpu, &n)) {
        tx_info("  none             %s", tx_last_error());
        return;
    }
    for (int i = 0; i < n; i++)
        tx_info("  %-2d               %s, %s, %.1f GiB%s%s", i, gpu[i].name, gpu[i].arch,
                (double)gpu[i].memory / 1073741824.0, *gpu[i].bus ? ", " : "", gpu[i].bus);
    m->libraries(lib, &n_libs);
    for (int i = 0; i < n_libs; i++)
        tx_info("  %-16s %s%s", lib[i].name, *lib[i].trouble ? lib[i].trouble : lib[i].version,
                *lib[i].trouble && lib[i].optional ? " (triax can do without)" : "");
}

/* ---- the self-test ---- */

static void tiny_batch(int32_t *tokens, int step)
{
    tx_rng rng = { .seed = 1, .stream = tx_rng_stream("doctor"), .step = (uint32_t)step };
    for (int i = 0; i < 2 * TINY_ROW; i++) tokens[i] = (int32_t)(tx_rng_uniform(&rng, (uint64_t)i) * TINY_VOCAB);
}

static tx_status tiny_engine(tx_engine **e, tx_config **cfg, const char *more)
{
    char flags[1024];
    snprintf(flags, sizeof flags, "%s%s", TINY_FLAGS, more);
    *e = NULL;
    TX_TRY(tx_config_parse_string(cfg, "pretrain-gpt", flags));
    tx_status st = tx_engine_create(e, *cfg, TINY_VOCAB + 1);
    if (st) tx_config_free(*cfg);
    return st;
}

static tx_status train(tx_engine *e, int n_iterations, double *loss)
{
    int32_t tokens[2 * TINY_ROW];
    double one;
    for (int i = 0; i < 2 * n_iterations; i++) {
        tiny_batch(tokens, (int)tx_engine_iteration(e) * 2 + i % 2);
        TX_TRY(tx_engine_forward(e, tokens, &one));
        TX_TRY(tx_engine_backward(e));
        TX_TRY(tx_engine_step(e));
    }
    *loss = tx_engine_loss(e);
    return TX_OK;
}

static tx_status train_on(const char *flags, double *loss)
{
    tx_config *cfg;
    tx_engine *e;
    TX_TRY(tiny_engine(&e, &cfg, flags));
    tx_status st = train(e, 3, loss);
    tx_engine_destroy(e);
    tx_config_free(cfg);
    return st;
}

/* A fast backend against the plain one, dropout on: three steps must agree. */
static tx_status test_backend(const char *name)
{
    char flags[64];
    double fast, plain;
    snprintf(flags, sizeof flags, "--device %s", name);
    TX_TRY(train_on(flags, &fast));
    TX_TRY(train_on("--device ref", &plain));
    if (!(fabs(fast - plain) < 1e-4))
        return TX_FAIL(TX_ERR_NUMERIC, "the %s backend's loss %.7f differs from the ref backend's %.7f", name, fast,
                       plain);
    tx_info("  ok   %s and ref backends train alike (loss %.6f, difference %.1e)", name, fast, fabs(fast - plain));
    return TX_OK;
}

/* Two steps, save, load into a fresh engine, one step: as the engine's own third one. */
static tx_status test_resume(const char *flags)
{
    char dir[] = "/tmp/triax-doctor-XXXXXX";
    tx_config *cfg = NULL, *cfg2 = NULL;
    tx_engine *e = NULL, *resumed = NULL;
    double straight, loss;
    if (!mkdtemp(dir)) return TX_FAIL(TX_ERR_IO, "/tmp: cannot create a directory for the self-test");
    tx_status st;
    TX_GOTO(tiny_engine(&e, &cfg, flags));
    TX_GOTO(train(e, 2, &loss));
    TX_GOTO(tx_engine_save_checkpoint(e, dir, NULL, NULL));
    TX_GOTO(train(e, 1, &straight));
    TX_GOTO(tiny_engine(&resumed, &cfg2, flags));
    TX_GOTO(tx_engine_load_checkpoint(resumed, dir, NULL, NULL, NULL));
    TX_GOTO(train(resumed, 1, &loss));
    if (loss != straight)
        st = TX_FAIL(TX_ERR_NUMERIC, "a resumed run has loss %.9f, an uninterrupted one %.9f", loss, straight);
    else
        tx_info("  ok   a run that is saved and resumed has the same bits");
out:
    tx_engine_destroy(e);
    tx_engine_destroy(resumed);
    tx_config_free(cfg);
    tx_config_free(cfg2);
    tx_remove_tree(dir);
    return st;
}

/* The processor's and the memory's peak, and a product of the shape of a small model's layer: the best of a few runs.
 */
static tx_status test_speed(const tx_config *cfg)
{
    double rate;
    tx_ctx c;
    TX_TRY(tx_product_rate(&rate, "cpu", (int)cfg->threads, 1024, TX_F32));
    TX_TRY(tx_ctx_init(&c, "cpu", (int)cfg->threads));
    tx_status st;
    double peak = c.backend->peak_flops(&c, TX_F32), bf16 = c.backend->peak_flops(&c, TX_BF16);
    tx_bandwidth memory;
    TX_GOTO(c.backend->bandwidth(&c, &memory));
    tx_info("  ok   multiply-adds run at up to %.0f GFLOP/s in fp32", peak * 1e-9);
    if (bf16 > 0) tx_info("  ok   multiply-adds run at up to %.0f GFLOP/s in bf16", bf16 * 1e-9);
    tx_info("  ok   matrix products run at %.0f GFLOP/s in fp32, %.0f %% of that", rate * 1e-9, 100 * rate / peak);
    tx_info("  ok   memory is read at %.1f GB/s and copied at %.1f GB/s", memory.read * 1e-9, memory.copy * 1e-9);
out:
    tx_ctx_deinit(&c);
    return st;
}

static tx_status test_gpu(void)
{
    const tx_gpu_module *m;
    double fp32, bf16;
    TX_TRY(test_backend("gpu"));
    TX_TRY(test_resume("--device gpu"));
    TX_TRY(tx_gpu_module_get(&m));
    if (!strcmp(m->kind, "emulated")) return TX_OK; /* how fast that is, nobody wants to know */
    TX_TRY(tx_product_rate(&fp32, "gpu", 1, 1024, TX_F32));
    TX_TRY(tx_product_rate(&bf16, "gpu", 1, 4096, TX_BF16));
    tx_info("  ok   the GPU's matrix products run at %.1f TFLOP/s in fp32, %.1f TFLOP/s in bf16", fp32 * 1e-12,
            bf16 * 1e-12);
    return TX_OK;
}

/* ---- the machine file ---- */

static void name_machine(tx_machine *m, const tx_config *cfg)
{
    tx_gpu_info gpu[TX_GPU_MAX];
    const tx_gpu_module *module;
    int n;
    char cpu[128];
    const char *device = tx_device_choice_word(cfg->device);
    if (!strcmp(device, "auto")) device = tx_backend_auto();
    tx__processor_name(cpu, sizeof cpu);
    bool on_gpu = !strcmp(device, "gpu") && !tx_gpu_module_get(&module) && !module->list(gpu, &n);
    snprintf(m->name, sizeof m->name, "%.60s", on_gpu ? gpu[0].name : cpu);
}

static tx_status write_machine(const tx_config *cfg)
{
    tx_machine m = { 0 };
    tx_str source = { 0 };
    char dir[4096];
    const char *slash = strrchr(cfg->machine_file, '/');
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash + 1 - cfg->machine_file) : 1,
             slash ? cfg->machine_file : ".");
    if (!tx_path_is_dir(dir) || tx_path_is_dir(cfg->machine_file))
        return TX_FAIL(TX_ERR_ARG, "--machine-file %s: %s; give the path of a file in a folder that there is",
                       cfg->machine_file, tx_path_is_dir(dir) ? "is a folder" : "its folder is missing");
    tx_status st;
    TX_GOTO(tx_machine_measure(&m, &source, cfg, dir, NULL));
    name_machine(&m, cfg);
    TX_GOTO(tx_machine_write(&m, cfg->machine_file, source.data));
    tx_info("written to %s: triax plan --machine %s ...", cfg->machine_file, cfg->machine_file);
out:
    tx_str_free(&source);
    tx_machine_free(&m);
    return st;
}

tx_status tx_doctor(const tx_config *cfg)
{
    if (cfg->machine_file) return write_machine(cfg);
    report_machine();
    TX_TRY(report_use(cfg));
    report_gpus();
    tx_info("self-test");
    TX_TRY(test_backend("cpu"));
    TX_TRY(test_resume("--device cpu"));
    TX_TRY(test_speed(cfg));
    if (!strcmp(tx_backend_auto(), "gpu")) TX_TRY(test_gpu());
    tx_info("all is well");
    return TX_OK;
}
