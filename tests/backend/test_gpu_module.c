/* test_gpu_module.c - the modules that were built, on a machine without a driver or with its GPUs hidden: they load,
 * and a user reads what is missing. */
#include "support.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/gpu_module.h"

static bool driver_is_here(const char *module)
{
    return strstr(module, "hip") ? !access("/dev/kfd", F_OK) : dlopen("libcuda.so.1", RTLD_LAZY) != NULL;
}

static void test_says_what_is_missing(void **state)
{
    const char *file = *state;
    const tx_gpu_module *m;
    tx_ctx c;
    setenv("TX_GPU_MODULE", file, 1);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    setenv("HIP_VISIBLE_DEVICES", "-1", 1);
    assert_int_equal(tx_gpu_module_get(&m), TX_ERR_NOTFOUND);
    print_message("%s\n", tx_last_error());
    assert_non_null(strstr(tx_last_error(), "there is no GPU to use: "));
    if (!driver_is_here(file))
        assert_non_null(strstr(tx_last_error(), strstr(file, "hip") ? "/dev/kfd" : "libcuda.so.1"));
    assert_int_equal(tx_ctx_init(&c, "gpu", 1), TX_ERR_NOTFOUND);
    assert_non_null(strstr(tx_last_error(), "there is no GPU to use: "));
    ASSERT_OK(tx_ctx_init(&c, "auto", 1)); /* goes on with the processor */
    assert_string_equal(c.backend->name, "cpu");
    tx_ctx_deinit(&c);
}

static int run_module(const char *kind, const char *file)
{
    if (!file || !strcmp(file, "none")) {
        printf("skipped: no module for %s was built (TX_GPU)\n", kind);
        return 77;
    }
    fflush(NULL);
    pid_t child = fork(); /* a process can open one module */
    if (child == 0) {
        const struct CMUnitTest tests[] = { { "says what is missing", test_says_what_is_missing, NULL, NULL,
                                              (void *)(uintptr_t)file } };
        exit(cmocka_run_group_tests_name(kind, tests, NULL, NULL));
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void)
{
    int cuda = run_module("CUDA", getenv("TX_GPU_MODULE_CUDA")), hip = run_module("HIP", getenv("TX_GPU_MODULE_HIP"));
    if (cuda == 77) return hip;
    return hip == 77 ? cuda : cuda | hip;
}
