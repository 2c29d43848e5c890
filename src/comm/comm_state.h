/* comm_state.h - the members of groups and worlds, for src/comm/ only.
 *
 *      comm_calls.c   the calls: checks, counts, starts a request, waits for it
 *      waiting.c      the loop that waits: advances everything, checks the time-out and whether the job was ended
 *      staging.c      requests on tensors of a device's memory, by way of the host's
 *      teams.c        the same between GPUs, by the vendor's library
 *      local*.c       requests between ranks that read each other's memory
 *      remote.c       the same over a transport
 *      hosts.c        the same between hosts that have several ranks each, by both
 *      hosts_plan.c   which rank of which host does what in it
 *      comm_job.c     what the ranks of a host know of each other
 *      world*.c       how ranks are made */
#ifndef TX_COMM_COMM_STATE_H
#define TX_COMM_COMM_STATE_H

#include <stdatomic.h>

#include "base/shared.h"
#include "comm/comm.h"

/* Algorithms. */
enum { TX__ALL_REDUCE, TX__REDUCE_SCATTER, TX__ALL_GATHER, TX__BROADCAST, TX__ALL_TO_ALL, TX__SEND, TX__RECV };

/* Names of calls, for messages: the counted ones, and those that are not. */
enum { TX__RECEIVE = TX_N_COMM_OPS, TX__GATHER, TX__SPREAD, TX__BARRIER, TX__AGREE, TX__SPLIT, TX__N_CALLS };
extern const char *const tx__call_names[TX__N_CALLS];

/* Not one of tensor.h's: bytes of host calls. */
enum { TX__BYTES = TX_N_DTYPES };
size_t tx__size_of(int dtype);

/* Where memory is, for other ranks: in their own address space too, or in a shared block. */
typedef struct tx__address {
    void *pointer;         /* ranks of one process */
    tx_shared_place place; /* ranks of several */
} tx__address;

struct tx__board;
struct tx__transport;

typedef struct tx__section {
    int64_t lo, n; /* elements */
} tx__section;

/* The i-th of n slices, ends at whole cache lines of any type. */
tx__section tx__slice(tx__section s, int i, int n);

/* What the members of a group on one host let each other read, by rank: buffers, or copies of them (hosts.c). */
typedef struct tx__visited {
    void *const *at;
    const bool *copied;
} tx__visited;

typedef struct tx__kind {
    void (*start)(tx_comm *g, tx_request *r); /* r is filled in up to `staged` and zeroed after it */
    tx_status (*progress)(tx_comm *g);        /* moves on all of the group's requests */
    void (*absent)(const tx_comm *g, const tx_request *r, bool *ranks); /* who is waited for: true of members */
    void (*close)(tx_comm *g);
} tx__kind;

extern const tx__kind tx__local_kind, tx__remote_kind, tx__hosts_kind;

/* A FIFO queue of requests. */
typedef struct tx__queue {
    tx_request *head, *tail;
} tx__queue;

struct tx_comm {
    const tx__kind *kind; /* NULL: a group of one, or a plan */
    int rank, size;
    char name[32];
    tx_world *world;
    int *world_rank; /* [size], owned; NULL: a plan, or tx_comm_self */
    int *said;       /* [size], after it: of an agreement, which has to work when no memory is left */
    tx_comm *next;   /* of the world's groups */
    tx_comm_volume volume[TX_N_COMM_OPS];
    int64_t n_calls[TX__N_CALLS];
    double waited[TX__N_CALLS]; /* seconds, while debug lines are wanted */

    tx__queue coming; /* started, but not yet passed to the kind: copies from a device come first */
    tx__queue collectives, sends, receives; /* under way */
    tx__queue by_hosts;                     /* the same: collectives of hosts.c */
    tx_request *to_publish, *to_work;       /* in collectives: the first with that left to do */
    int64_t n_requests, n_chunks;           /* collectives so far */

    struct tx_gpu_team *team; /* NULL: a device's tensors go by way of the host */
    struct tx__side *team_side;

    struct tx__local *local;    /* local.c's */
    struct tx__remote *remote;  /* remote.c's */
    struct tx__by_hosts *hosts; /* hosts.c's */
};

/* Whether a request of the group is with its kind. */
bool tx__is_busy(const tx_comm *g);

/* ---- a group's requests ---- */

void tx__push(tx__queue *q, tx_request *r);
void tx__remove(tx__queue *q, tx_request *r);

/* Of an all-to-all: elements of the rows of the first n members. @rows its send_rows or recv_rows */
int64_t tx__elements(const tx_request *r, const int64_t *rows, int n);

/* Starts a request that is filled in from `x` to `staged`, in a group of several ranks. */
tx_status tx__start(tx_ctx *c, tx_comm *g, tx_request *r);

/* Advances everything that is in progress. */
tx_status tx__progress(tx_world *w);

/* Waits until the request is finished, and advances all of the world's meanwhile. Fails by its own error, another
 * rank's, or the time-out. */
tx_status tx__wait_for(tx_request *r);

/* ---- tensors in a device's memory ---- */

/* The host copy of a tensor in device memory, while a request works on it. */
typedef struct tx__staged_copy {
    struct tx__staged_copy *next;
    tx_event *down, *up; /* copied to the host; its result copied back */
    void *host;
    size_t bytes;
    bool used;
} tx__staged_copy;

/* A team's call in the communication stream. */
typedef struct tx__flight {
    struct tx__flight *next;
    tx_event *done;
    tx_request r; /* a copy, for messages; r.g NULL: its group has been closed */
    bool awaited; /* it will not be waited for again */
} tx__flight;

/* What a world keeps with a device. */
typedef struct tx__side {
    tx_device_guest guest; /* first */
    tx_world *world;
    tx_device *device;
    struct tx__side *next;
    tx__staged_copy *stages;
    tx_event *start; /* of the compute stream; recorded anew by each request */

    tx__flight *flights, *idle; /* in the order of calls; free */
    const tx__flight *first;    /* that was not done when it was last looked on, at `looked` */
    double looked, waited;      /* seconds; waited for the first */
} tx__side;

tx_status tx__side_of(tx__side **out, tx_world *w, tx_device *d);

/* Makes r, whose tensors are on the ctx's device, work on a copy in host memory, and starts that copy. */
tx_status tx__stage_begin(tx_ctx *c, tx_request *r);

/* Passes requests whose copy has arrived to their kind, and copies back the results of finished ones. */
tx_status tx__coming_progress(tx_comm *g);
tx_status tx__landing_progress(tx_world *w);

/* For a finished request: makes the compute stream wait for its result. For any other: drops it. */
tx_status tx__stage_end(tx_request *r);

void tx__sides_close(tx_world *w);

/* ---- teams of GPUs ---- */

struct tx__team_card;

/* Whether r's group has a team that can do it; it then runs in the communication stream. */
bool tx__flies(const tx_ctx *c, const tx_request *r);
tx_status tx__flight_begin(tx_request *r);
tx_status tx__flight_end(tx_request *r); /* the compute stream waits until it is done */

/* Checks the calls in progress: errors, the end of the job, the time-out. */
tx_status tx__teams_watch(tx_world *w);

/* For a new group in a world whose ranks have GPUs. */
tx_status tx__team_open(tx_comm *g);
void tx__team_close(tx_comm *g);

/* For a device that is about to be closed: closes all teams on it and their unfinished calls. */
void tx__flights_close(tx__side *s);

/* ---- what the ranks of a host know about each other ---- */

enum { TX__IDLE, TX__NOTED, TX__STARTED, TX__WAITING, TX__WAITED, TX__ENDED };

/* What a rank is doing. Only the rank itself writes it; others read it after they have waited too long. All members
 * are words, so that a reader never sees a torn one; a reader that sees words from two moments notices it by
 * `version`. */
typedef struct tx__presence {
    _Alignas(64) _Atomic uint64_t version; /* odd while it is being written */
    _Atomic uint64_t doing, what, call, layer, backward;
    _Atomic uint64_t group[4], note[8]; /* texts */
    _Atomic uint64_t waits_since;       /* microseconds of tx_clock(); 0: does not wait */
    _Atomic uint64_t waits_at;          /* the same: when it was last seen to wait, which a stopped rank is not */
    _Atomic uint32_t asleep;            /* 1: it sleeps until another rank clears this and wakes it */
} tx__presence;

enum { TX__WHY = 1024 };

/* One a host, in memory that all its ranks share. */
typedef struct tx__job {
    _Atomic int ended_by; /* rank + 1 in the world */
    _Atomic int told;     /* `why` is complete */
    char why[TX__WHY];
    tx__presence rank[]; /* by local rank */
} tx__job;

size_t tx__job_bytes(int n_local);

struct tx_world {
    int rank, size;
    tx_comm *all;     /* owned */
    tx_seat *seats;   /* [size], owned */
    tx__job *job;     /* its host's; NULL: a rank alone */
    tx__job *own_job; /* of a process: made here, used when it is its host's first */
    tx_comm *groups;  /* all that are open */
    double timeout;
    bool crowded;     /* more ranks are on this host than processors */
    bool flat;        /* groups that are made send between all their ranks, not host by host */
    tx_ctx *profiled; /* whose profile waits are counted to; NULL: nobody's */
    double idle;      /* then: seconds in which the last wait had nothing to move */
    int64_t moves;    /* pieces that this rank has moved or summed */
    int64_t n_groups; /* made so far, by any of those who share one with this rank */
    bool one_process;
    tx__side *sides;             /* a device each, owned */
    tx__side *team_side;         /* of them that of tx_world_use_device; NULL: none */
    struct tx__team_card *cards; /* [size], owned: what each rank has reported of its GPU */
    const struct tx_gpu_collectives *collectives;
    tx_request *on_device;           /* all that have a stage */
    struct tx__board *boards;        /* made here (board.c) */
    const struct tx__transport *net; /* NULL: all ranks are on this host */
};

/* Local rank of a rank of the world, if it is on this host; -1. */
int tx__local_rank(const tx_world *w, int rank);

void tx__presence_note(tx_world *w, const char *what);
void tx__presence_start(tx_world *w, const tx_request *r);
void tx__presence_wait(tx_world *w, const tx_request *r); /* NULL: does not wait any more */
void tx__presence_still(tx_world *w);                     /* it waits still */
void tx__presence_end(tx_world *w);

/* Whether a rank of the world is on this host and waits for others itself, now. */
bool tx__presence_waits(const tx_world *w, int rank);

/* Wakes one member, or all other members, of a group on one host. Call it after every change of the board for which
 * they may be waiting. If nobody sleeps, it only reads a flag. */
void tx__wake_member(tx_comm *g, int member);
void tx__wake_members(tx_comm *g);

/* Sleeps until a rank of this host changes something in one of this rank's groups, or for some milliseconds; returns at
 * once when `tx__progress` in between finishes `r`. Only where all that the world waits for is changed by ranks of this
 * host: neither another host nor a device wakes anybody. */
tx_status tx__sleep(tx_world *w, const tx_request *r);

/* TX_ERR_COMM with the message of the rank that ended the job; TX_OK: none did. */
tx_status tx__job_check(tx_world *w);

/* Ends the job in this rank's name; false: another rank already has. */
bool tx__job_end(tx_world *w, const char *why);

/* "in all-gather #33 of the tensor-parallel group (layer 2, forward)", of a rank of this world. */
void tx__presence_describe(char *buf, size_t cap, tx_world *w, int rank);

/* "all-reduce #1580 of the data-parallel group (layer 3, backward)" */
void tx__request_describe(char *buf, size_t cap, const tx_request *r);

/* Whether a lower rank of this host has also waited too long, and will report it. */
bool tx__lower_rank_waits(tx_world *w, double since);

/* ---- groups between ranks of one host ---- */

/* Makes g a local group over a board that all members have. */
tx_status tx__local_open(tx_comm *g, struct tx__board *board, bool one_process);

/* The board of a group of n, zeroed; it is `owner`'s, who frees it when all have left the group. */
tx_status tx__board_make(struct tx__board **out, tx_world *owner, int n);

/* Frees the boards made here when all have left them, or after so many seconds. */
void tx__boards_free(tx_world *w, double patience);

/* ---- helpers ---- */

/* Copies n bytes, with n_threads if it is worthwhile. */
void tx__copy(void *to, const void *from, size_t n, int n_threads);

tx_status tx__group_new(tx_comm **out, tx_world *w, int size, int rank, const char *name);
void tx__leave_world(tx_comm *g); /* it is none of the world's groups any more */

/* A world with seats to be filled in and a group of all that has no kind yet. */
tx_status tx__world_new(tx_world **out, int rank, int size);
void tx__find_crowded(tx_world *w); /* when its seats are known */
void tx__groups_close(tx_world *w);
void tx__world_free(tx_world *w);

/* Makes g a remote group. @id larger than that of any group that shares a rank with this one */
tx_status tx__remote_open(tx_comm *g, int64_t id);

/* MPI's error in words; and what a collective's message of another size than expected means. */
tx_status tx__net_failed(const tx_comm *g, int error);
tx_status tx__other_size(const tx_comm *g, const tx_request *r, int m, size_t bytes);

/* Lets g, a remote group, call host by host too, if that saves bytes. Collective over it. */
tx_status tx__hosts_open(tx_comm *g, int64_t id);

/* Members of g on one host as a group (comm_split.c); it is no group of the world's. Collective over g. @color of each
 * member */
tx_status tx__inside_open(tx_comm **out, tx_comm *g, const int *color);

#endif
