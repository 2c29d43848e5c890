/* labels: unit */
/* The rows of optimizers and formats name types that fit them. */
#include "support.h"

#include "convert/sink.h"
#include "optim/optim.h"

#define CONSTANT(constant, ...) constant,

static void optimizers(void **state)
{
    (void)state;
    static const enum tx_optimizer_kind rows[] = { TX_OPTIMIZERS(CONSTANT) };
    int n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, n++) {
        const tx_optim_type *o = tx_optim_type_of(rows[i]);
        assert_non_null(o);
        assert_ptr_equal(o, tx_optim_type_at((int)i));
        assert_true(o->step && o->keeps->n <= TX_OPTIM_MAX_STATE);
        for (int k = 0; k < o->keeps->n; k++) assert_non_null(o->keeps->state[k].name);
        const unsigned traits = tx_optimizer_traits(rows[i]);
        if (traits & TX_OPTIMIZER_MOMENTS) assert_true(o->keeps->n >= 2);
        assert_int_equal((traits & TX_OPTIMIZER_BETAS) != 0, o->betas[0] && o->betas[1]);
        assert_int_equal((traits & TX_OPTIMIZER_COMPRESSED) != 0, o->signs && o->tell && o->direction);
        assert_true(o->averaged < TX_OPTIM_MAX_STATE && (!o->n_alone || o->place));
        if (traits & (TX_OPTIMIZER_MEGATRON | TX_OPTIMIZER_DEEPSPEED)) assert_true(o->member && o->keeps->n);
    }
    assert_null(tx_optim_type_at(n));
}

static void formats(void **state)
{
    (void)state;
    static const enum tx_checkpoint_format rows[] = { TX_FORMATS(CONSTANT) };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const tx_source_type *source = tx_source_type_of(rows[i]);
        const tx_sink_type *sink = tx_sink_type_of(rows[i]);
        assert_true(source->format == rows[i] && sink->format == rows[i]);
        assert_true(source->open && source->close && source->options && source->read && sink->write);
        assert_non_null(tx_checkpoint_format_what(rows[i]));
        bool shared = tx_checkpoint_format_is_saved(rows[i]) && rows[i] != TX_FORMAT_NATIVE;
        assert_true(!shared || (sink->check && sink->write_rank));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(optimizers), cmocka_unit_test(formats) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
