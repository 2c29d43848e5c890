/* base64.c - by Nettle. */
#include "token/base64.h"

#include <nettle/base64.h>

tx_status tx__base64_read(tx_str *out, const char *text, size_t n)
{
    struct base64_decode_ctx c;
    size_t more = BASE64_DECODE_LENGTH(n);
    TX_TRY(tx_str_reserve(out, out->len + more));
    base64_decode_init(&c);
    if (!base64_decode_update(&c, &more, (uint8_t *)out->data + out->len, n, text) || !base64_decode_final(&c) || n % 4)
        return TX_FAIL(TX_ERR_FORMAT, "not base64");
    out->len += more;
    out->data[out->len] = 0;
    return TX_OK;
}
