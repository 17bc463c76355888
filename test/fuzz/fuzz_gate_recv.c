/* SPDX-License-Identifier: Apache-2.0 */
/* The gate of a sealed switch, two ranks that have its key, and a wire on which anything happens to
 * their packets.  The input is a list of that: a rank joins or sends, a packet comes as it is,
 * damaged, cut, again, or from elsewhere; or it is made of the input.
 *
 * Nothing but what a rank has sent is opened, unchanged, once; only a JOIN in clear is answered by
 * the gate, and never longer than it is. */
#include "core/wire/ctlmsg.h"
#include "fuzz.h"
#include "seal/gate.h"
#include "seal/rank.h"
#include "seal/toy.h"

#define RANKS	2
#define PAYLOAD 64
#define ROOM	(FAN_HEAD_BYTES + FAN_CTL_BYTES_MAX + 2 * FAN_SEAL_MORE)
#define TAPE	32 /* of the last packets, to be given again */
#define JOB	0x0100u
#define EPOCHS	3u
#define ITEMS	8
#define STEPS	512

struct tape {
	uint8_t sealed[ROOM], clear[ROOM]; /* as it travels, and as it has to be opened */
	size_t sealed_bytes, clear_bytes;
	bool is_join;
	bool opened; /* once, which is enough unless it is a JOIN */
};

static struct fan_gate *gate;
static struct fan_seal_rank rank[RANKS];
static struct tape tape[TAPE];
static unsigned taped;
static uint64_t nonces;
static uint32_t epoch;
static uint64_t latest[RANKS][EPOCHS + 1]; /* nonce that the node has let in, by epoch */
static struct fan_out_item item[ITEMS];
static uint8_t scratch[ITEMS * FAN_ITEM_SCRATCH], space[ROOM + FAN_SEAL_MORE];
static struct fan_out out;

static fan_peer node(unsigned i)
{
	return (fan_peer){.addr = {7, i + 1}, .port = 1};
}

/* Rank `r` sends `f`: sealed or signed to the tape, as far as it has a key. */
static void record(unsigned r, struct fan_frag *f, const uint8_t *body, size_t bytes)
{
	struct tape *t = &tape[taped % TAPE];
	struct fan_out_item it = {.payload = body, .payload_bytes = bytes};
	f->payload = body;
	f->payload_bytes = bytes;
	memset(t, 0, sizeof *t);
	fan_wire_put(it.head, f);
	t->clear_bytes = fan_out_item_copy(&it, t->clear);
	t->is_join = f->type == FAN_TYPE_JOIN;
	if (!fan_seal_rank_item(&rank[r], 0, &it, space))
		return;
	t->sealed_bytes = fan_out_item_copy(&it, t->sealed);
	FUZZ_CHECK(t->sealed_bytes == t->clear_bytes + FAN_SEAL_MORE);
	taped++;
}

static void join(unsigned r, bool anew)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	struct fan_join m = {.ranks = RANKS,
			     .payload_bytes = PAYLOAD,
			     .alive_ms = 1000,
			     .workers = 1,
			     .name_bytes = 7};
	struct fan_frag f = {.type = FAN_TYPE_JOIN, .sender = (uint16_t)r};
	if (anew || !rank[r].nonce)
		nonces++;
	f.nonce = anew || !rank[r].nonce ? nonces : rank[r].nonce;
	memcpy(m.name, "tenant/", 7);
	record(r, &f, body, fan_ctl_put(body, &m));
}

static void send(unsigned r, struct fuzz *z)
{
	uint8_t body[PAYLOAD];
	struct fan_frag f = {.type = FAN_TYPE_DATA,
			     .job = JOB,
			     .epoch = epoch,
			     .sender = (uint16_t)r,
			     .frag = fuzz_frag(z),
			     .count = fuzz_8(z) % (PAYLOAD / 4)};
	fuzz_bytes(z, body, f.count * 4u);
	record(r, &f, body, f.count * 4u);
}

/* What the node answers to the JOIN that was opened: WELCOME, to where it came from; nothing to a
 * life of a rank that a later one has replaced in this epoch. */
static void welcome(const struct fan_frag *f, const fan_peer *to)
{
	if (f->sender >= RANKS || f->nonce < latest[f->sender][epoch]) {
		fan_gate_answer(gate, &out);
		fan_gate_send(gate, 0, &out);
		return;
	}
	latest[f->sender][epoch] = f->nonce;
	uint8_t *body, pkt[ROOM];
	const struct fan_welcome m = {.window = 4, .shards = 1, .beat_ms = 100, .alive_ms = 1000};
	struct fan_frag h = {.type = FAN_TYPE_WELCOME,
			     .job = JOB,
			     .epoch = epoch,
			     .sender = FAN_RANK_NONE,
			     .nonce = f->nonce};
	struct fan_out_item *it = fan_out_add(&out, FAN_TO_PEER);
	it->peer = *to;
	body = fan_out_scratch(&out, FAN_CTL_BYTES_MAX);
	fan_ctl_finish(it, &h, body, fan_ctl_put(body, &m));
	fan_gate_answer(gate, &out);
	FUZZ_CHECK(!fan_gate_is_join(gate));
	for (unsigned i = 0; i < out.count; i++)
		fan_seal_rank_recv(&rank[f->sender], 0, pkt, fan_out_item_copy(&out.item[i], pkt));
	fan_gate_send(gate, 0, &out);
	fan_out_reset(&out);
}

/* The packet on the tape that `pkt` is; NULL: none. */
static struct tape *find(const uint8_t *pkt, size_t len)
{
	for (unsigned i = 0; i < TAPE; i++)
		if (tape[i].sealed_bytes == len && !memcmp(tape[i].sealed, pkt, len))
			return &tape[i];
	return NULL;
}

static void judge(struct tape *t, const uint8_t *pkt, size_t len)
{
	FUZZ_CHECK(t && len == t->clear_bytes && !memcmp(pkt, t->clear, len));
	FUZZ_CHECK(t->is_join || !t->opened);
	t->opened = true;
}

static void give(const fan_peer *from, const uint8_t *bytes, size_t len)
{
	uint8_t *pkt =
		malloc(len ? len : 1); /* of its own size, so that sanitizers see a byte too many */
	memcpy(pkt, bytes, len);
	struct tape *t = find(pkt, len);
	bool query = len >= FAN_HEAD_BYTES && pkt[0] == FAN_WIRE_VERSION &&
		     pkt[1] == FAN_TYPE_QUERY && !(fan_get16(pkt + 2) & FAN_F_SEALED);
	bool other = len < FAN_HEAD_BYTES || pkt[0] != FAN_WIRE_VERSION;
	size_t opened = fan_gate_recv(gate, 0, from, pkt, len, &out);
	for (unsigned i = 0; i < out.count; i++)
		FUZZ_CHECK(fan_out_item_bytes(&out.item[i]) <= len && !opened);
	if (query || other)
		FUZZ_CHECK(opened == len);
	else if (opened)
		judge(t, pkt, opened);
	struct fan_frag f;
	if (fan_gate_is_join(gate)) {
		FUZZ_CHECK(fan_wire_get(&f, pkt, opened) == -1 && f.type == FAN_TYPE_JOIN);
		welcome(&f, from);
	}
	fan_out_reset(&out);
	const struct fan_gate_stats *s = fan_gate_stats(gate);
	FUZZ_CHECK(s->ranks <= RANKS * FAN_GATE_LIVES);
	free(pkt);
}

/* One of the last packets, with something wrong. */
static void wrong(struct fuzz *z, unsigned from)
{
	uint8_t pkt[ROOM + 8];
	const struct tape *t = &tape[fuzz_8(z) % TAPE];
	const fan_peer p = node(from);
	size_t len = t->sealed_bytes;
	uint8_t how = fuzz_8(z);
	memset(pkt, 0, sizeof pkt);
	memcpy(pkt, t->sealed, len);
	if (how % 4 == 0 && len)
		len = fuzz_16(z) % len;
	else if (how % 4 == 1)
		len += how / 4 % 8;
	for (unsigned n = how / 64 + (how % 4 > 1); n && len; n--)
		pkt[fuzz_16(z) % len] ^= fuzz_8(z);
	give(&p, pkt, len);
}

static void raw(struct fuzz *z, unsigned from)
{
	uint8_t pkt[256];
	const fan_peer p = node(from);
	size_t len = fuzz_8(z);
	uint8_t how = fuzz_8(z);
	fuzz_bytes(z, pkt, len);
	if (how & 1)
		fuzz_fix(pkt, len);
	if (how & 2 && len >= FAN_HEAD_BYTES)
		fan_put16(pkt + 2, fan_get16(pkt + 2) | FAN_F_SEALED);
	give(&p, pkt, len);
}

static void step(struct fuzz *z)
{
	uint8_t what = fuzz_8(z);
	unsigned r = what >> 7, from = what >> 5 & 3;
	const fan_peer p = node(from);
	const struct tape *last = taped ? &tape[(taped - 1) % TAPE] : &tape[0];
	switch (what & 15) {
	case 0: join(r, true); break;
	case 1: join(r, false); break;
	case 2:
	case 3:
	case 4: send(r, z); break;
	case 5:
	case 6:
	case 7:
	case 8: give(&p, last->sealed, last->sealed_bytes); break;
	case 9: {
		const struct tape *t = &tape[fuzz_8(z) % TAPE];
		give(&p, t->sealed, t->sealed_bytes);
		break;
	}
	case 10: { /* in clear */
		const struct tape *t = &tape[fuzz_8(z) % TAPE];
		give(&p, t->clear, t->clear_bytes);
		break;
	}
	case 11:
	case 12: wrong(z, from); break;
	case 13: raw(z, from); break;
	case 14: epoch = 1 + what / 16 % EPOCHS; break;
	default: { /* another key of the fabric, for JOINs */
		struct fan_keys k = {.count = 2, .key = {{1}, {2}}};
		fan_gate_set_keys(gate, &k);
		break;
	}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz z = {data, size};
	struct fan_gate_config c = {.cipher = toy_cipher(),
				    .keys = {.count = 1, .key = {{1}}},
				    .payload_bytes = PAYLOAD,
				    .items = ITEMS};
	uint8_t key[FAN_KEY_BYTES];
	toy_reset(1);
	gate = fan_gate_new(&c);
	fan_tenant_key(c.cipher, key, c.keys.key[0], "tenant", 6);
	for (unsigned r = 0; r < RANKS; r++)
		fan_seal_rank_init(&rank[r], c.cipher, key);
	memset(tape, 0, sizeof tape);
	memset(latest, 0, sizeof latest);
	taped = 0;
	epoch = 1;
	nonces = 5;
	fan_out_init(&out, item, ITEMS, scratch, sizeof scratch);
	for (unsigned n = 0; n < STEPS && z.left; n++)
		step(&z);
	for (unsigned r = 0; r < RANKS; r++)
		fan_seal_rank_free(&rank[r]);
	fan_gate_free(gate);
	FUZZ_CHECK(toy_open_keys() == 0 && toy_repeats() == 0);
	toy_reset(0);
	return 0;
}
