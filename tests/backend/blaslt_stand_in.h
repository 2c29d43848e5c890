/* blaslt_stand_in.h - what the stand-in for cuBLASLt counted, for test_gemm_gpu.c. */
#ifndef TX_TESTS_BACKEND_BLASLT_STAND_IN_H
#define TX_TESTS_BACKEND_BLASLT_STAND_IN_H

/* Its algorithms, which are also the first of an algorithm's numbers. */
enum {
    STAND_IN_IN_PLACE = 1, /* offered first where sums of parts in C's type are allowed; makes NaN */
    STAND_IN_PACKED,       /* offered where all is on 16 bytes; refuses other addresses. Sums forwards */
    STAND_IN_SLOW,         /* waits BLASLT_STAND_IN_SLEEP_US, then sums forwards */
    STAND_IN_BACKWARDS,    /* sums from the end: other last places */
    STAND_IN_TOO_LARGE     /* needs more workspace than one may offer */
};

typedef struct blaslt_stand_in_counts {
    int objects; /* handles, descriptions, layouts and preferences that are there */
    int made;    /* so many of them were made so far */
    int asked;   /* for guesses */
    int products, last_algo;
} blaslt_stand_in_counts;

#define BLASLT_STAND_IN_COUNTS "blaslt_stand_in_counted" /* a variable */

#endif
