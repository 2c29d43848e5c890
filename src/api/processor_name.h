/* processor_name.h - what this machine calls itself. */
#ifndef TX_API_PROCESSOR_NAME_H
#define TX_API_PROCESSOR_NAME_H

#include <stddef.h>

/* The value after "key : " in a file of /proc, or "unknown". */
void tx__proc_value(const char *path, const char *key, char *out, size_t cap);

void tx__processor_name(char *out, size_t cap);

#endif
