/* SPDX-License-Identifier: Apache-2.0 */
/* sums.pml - are sums exact whatever the network does?  A model of doc/protocol/base.md, sections
 * 6.1 to 6.5, and shared.md, sections 1, 3 and 7, for Spin; `run` beside it checks all of it.
 *
 *     workers 0 .. RANKS-1  --up-->  switch with SLOTS  --single, sum-->  aggregator with a window
 *            ^                                                                     |
 *            +------------------------------- result ------------------------------+
 *
 * The network is a bag: messages arrive in any order and at any time, so every delay is in the
 * model.  It may lose LOSSES of them and bring DUPLICATES twice; a worker that sends again too
 * early counts as a duplicate.  FAILOVERS workers change to a path past the switch.  The switch may
 * restart, and forgets its slots; so may the aggregator, and forgets the job: then all join anew,
 * with the next epoch, and begin their operation again.  What is in flight stays there.
 *
 * More is allowed than the daemons do.  The switch evicts any slot at any time, and of two
 * fragments that want a slot either one may go on: so every policy, PROBE and FLUSH is in it.
 * Sequence numbers, gaps and timers only say when something is sent again: here, whenever it is
 * nowhere else, and too early as often as DUPLICATES allows.
 *
 * The claims are assertions:
 *   - a sum that leaves the switch is that of the ranks that it names, each once, of one fragment;
 *   - a result is the sum of all ranks, each once, of its own fragment and epoch;
 *   - memory is used again only when every rank has taken the result that was there;
 *   - no contribution of the job's epoch comes before its turn, since workers keep the window rule;
 * and by Spin's search for invalid end states: whatever happened, all ranks come to the end.
 *
 * Elements are not numbers here but marks: each accumulator counts how often each rank's element
 * went in, and remembers whether any of them was of another fragment or epoch.  No rule of the
 * protocol reads these counts.
 *
 * Faults to be found (-DNAME): OLD_BITS, SwitchML's one bit for a rank and version in place of the
 * number; NO_OVERLAP, a sum is added though one of its ranks is in; NO_EPOCH, the aggregator does not
 * compare epochs; NO_EPOCH_AT_WORKER; NO_KEY, the switch compares slots and not fragments;
 * NO_WINDOW, workers do not wait for the result of n - W and the aggregator trusts them.
 *
 * NO_GONE, the switch forgets whom it has sent up, is no fault: sums stay exact, since the aggregator
 * adds no rank twice.  The rule saves packets. */

#ifndef WINDOW
#define WINDOW 2
#endif
#ifndef FRAGMENTS
#define FRAGMENTS 5 /* fragment 4 uses the round of fragment 0 */
#endif
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef DUPLICATES
#define DUPLICATES 1
#endif
#ifndef FAILOVERS
#define FAILOVERS 0
#endif
#ifndef SWITCH_RESTARTS
#define SWITCH_RESTARTS 0
#endif
#ifndef AGGREGATOR_RESTARTS
#define AGGREGATOR_RESTARTS 0
#endif
#define RANKS  3 /* the model's text is of three */
#define SETS   8
#define ALL    7
#define ROUNDS (2 * WINDOW)
#define EPOCHS (AGGREGATOR_RESTARTS + 1)
#define EVERY  ((1 << FRAGMENTS) - 1)
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)

/* The network: how many there are of each message. */
#define UP     0	       /* DATA of a rank on its way to the switch */
#define SINGLE RANKS	       /* DATA of a rank on its way to the aggregator, past all slots */
#define SUM    (2 * RANKS - 1) /* PARTIAL of a set of ranks, which is 1 or more */
#define KINDS  (SUM + SETS)
#define NET    (EPOCHS * KINDS * FRAGMENTS)
#define MESSAGE(kind, e, f) (((e) * KINDS + (kind)) * FRAGMENTS + (f))
byte net[NET];
byte finished[EPOCHS]; /* bit f: RESULTs of f have been sent */
byte losses, duplicates, failovers, switch_restarts, aggregator_restarts;

/* Workers.  Bit f is about fragment f. */
byte epoch_of[RANKS], sent[RANKS], taken[RANKS];
bool past[RANKS]; /* the switch */

/* What an accumulator really holds: how often each rank's element went in, two bits a rank, and
 * whether one was of another fragment or epoch. */
typedef content {
	byte times;
	bool foreign
}

typedef shared_slot {
	bool used;
	byte epoch, frag;
	byte seen, gone; /* sets of ranks: in the sum; sent up before */
	content is
}
shared_slot slot[SLOTS];

#define FREE 0
#define OPEN 1
#define DONE 2
typedef version {
	byte state, frag, seen;
	content is
}
version round[ROUNDS];
byte epoch; /* of the aggregator's job */

#define ROUND(f)  (((f) % WINDOW) * 2 + ((f) / WINDOW) % 2)
#define SHADOW(f) (((f) % WINDOW) * 2 + 1 - ((f) / WINDOW) % 2)

/* Not part of a state: they are set before they are used. */
hidden byte e, f, i, k, m, n, r, s, x, set, want, yes;

#define TIMES(c, i) ((c.times >> (2 * (i))) & 3)

/* Each rank of `which` once more, up to 3 times. */
inline add(c, which)
{
	for (i : 0 .. RANKS - 1) {
		if
		:: HAS(which, i) && TIMES(c, i) < 3 -> c.times = c.times + (1 << (2 * i))
		:: else
		fi
	}
}

/* It must be the sum of `which`, each once. */
inline check(c, which)
{
	want = 0;
	for (i : 0 .. RANKS - 1) {
		if
		:: HAS(which, i) -> want = want + (1 << (2 * i))
		:: else
		fi
	}
	assert(!c.foreign && c.times == want)
}

inline clear(c)
{
	c.times = 0;
	c.foreign = false
}

/* ---- the switch ------------------------------------------------------------------------ */

inline forget_slot(s)
{
	slot[s].used = false;
	slot[s].epoch = 0;
	slot[s].frag = 0;
	slot[s].seen = 0;
	slot[s].gone = 0;
	clear(slot[s].is)
}

inline send_sum(s)
{
	check(slot[s].is, slot[s].seen);
	net[MESSAGE(SUM + slot[s].seen, slot[s].epoch, slot[s].frag)]++;
	slot[s].gone = slot[s].gone | slot[s].seen;
	slot[s].seen = 0;
	clear(slot[s].is)
}

inline put_in(s)
{
	slot[s].used = true;
	slot[s].epoch = e;
	slot[s].frag = f;
	slot[s].seen = BIT(r);
	slot[s].gone = 0;
	clear(slot[s].is);
	add(slot[s].is, BIT(r))
}

#ifdef NO_KEY
#define SAME_KEY (slot[s].used && slot[s].epoch == e && slot[s].frag % WINDOW == f % WINDOW)
#else
#define SAME_KEY (slot[s].used && slot[s].epoch == e && slot[s].frag == f)
#endif
#ifdef NO_GONE
#define HAS_BEEN 0
#else
#define HAS_BEEN slot[s].gone
#endif

/* DATA of rank r for fragment f in epoch e. */
inline at_switch()
{
	s = f % SLOTS;
	if
	:: SAME_KEY && HAS(slot[s].seen | HAS_BEEN, r)
	:: SAME_KEY && !HAS(slot[s].seen | HAS_BEEN, r) ->
		add(slot[s].is, BIT(r));
		slot[s].is.foreign = slot[s].is.foreign || slot[s].frag != f;
		slot[s].seen = slot[s].seen | BIT(r);
		if
		:: (slot[s].seen | slot[s].gone) == ALL -> send_sum(s)
		:: else
		fi
	:: !SAME_KEY && slot[s].seen == 0 -> put_in(s)
	:: !SAME_KEY && slot[s].seen != 0 -> net[MESSAGE(SINGLE + r, e, f)]++ /* collision */
	:: !SAME_KEY && slot[s].seen != 0 -> send_sum(s); put_in(s)	      /* preemption */
	fi
}

/* ---- the aggregator -------------------------------------------------------------------- */

#ifdef NO_EPOCH
#define OF_JOB true
#else
#define OF_JOB (e == epoch)
#endif
#ifdef NO_OVERLAP
#define IS_NEW ((round[n].seen & set) != set)
#else
#define IS_NEW ((round[n].seen & set) == 0)
#endif
#ifdef NO_WINDOW
#define IS_TURN true
#else
#define IS_TURN (f < WINDOW || (round[m].state == DONE && round[m].frag == f - WINDOW))
#endif

inline open()
{
	if
	:: round[n].state == DONE ->
		for (i : 0 .. RANKS - 1) {
			assert(epoch_of[i] != epoch || HAS(taken[i], round[n].frag))
		}
	:: else
	fi;
	round[n].state = OPEN;
	round[n].frag = f;
	round[n].seen = 0;
	clear(round[n].is)
}

inline accumulate()
{
	add(round[n].is, set);
	round[n].is.foreign = round[n].is.foreign || round[n].frag != f || e != epoch;
	round[n].seen = round[n].seen | set;
	if
	:: round[n].seen == ALL ->
		check(round[n].is, ALL);
		round[n].state = DONE;
		finished[epoch] = finished[epoch] | BIT(round[n].frag)
	:: else
	fi
}

/* The sum of `set` for fragment f in epoch e. */
inline at_aggregator()
{
	n = ROUND(f);
	m = SHADOW(f);
#ifdef OLD_BITS
	/* SwitchML's: a contribution sets its bit in its version and clears the other's. */
	if
	:: OF_JOB && (round[n].seen & set) == 0 ->
		if
		:: round[n].seen == 0 -> open()
		:: else
		fi;
		round[m].seen = round[m].seen & ~set;
		accumulate()
	:: else
	fi
#else
	if
	:: OF_JOB && round[n].state != FREE && round[n].frag == f -> /* now */
		if
		:: round[n].state == OPEN && IS_NEW -> accumulate()
		:: else
		fi
	:: OF_JOB && (round[n].state == FREE || round[n].frag < f) -> /* its turn to open it */
		assert(IS_TURN);
		open();
		accumulate()
	:: else /* stale, or of another life */
	fi
#endif
}

/* ---- workers --------------------------------------------------------------------------- */

#define IN_FLIGHT (HAS(sent[r], f) && !HAS(taken[r], f))
#ifdef NO_EPOCH_AT_WORKER
#define IS_OWN true
#else
#define IS_OWN (e == epoch_of[r])
#endif

/* RESULT of fragment f in epoch e, to rank r.  Where it passes the switch it frees the slot. */
inline at_worker()
{
	s = f % SLOTS;
	if
	:: SAME_KEY -> forget_slot(s)
	:: true
	fi;
	if
	:: IS_OWN && IN_FLIGHT ->
		assert(e == epoch_of[r]);
		taken[r] = taken[r] | BIT(f)
	:: else
	fi
}

#define READY (epoch_of[0] == epoch && epoch_of[1] == epoch && epoch_of[2] == epoch)
#ifdef NO_WINDOW
#define MAY_SEND(r, f) (READY && (f) < FRAGMENTS && !HAS(sent[r], f))
#else
#define MAY_SEND(r, f) (READY && (f) < FRAGMENTS && !HAS(sent[r], f) && \
			((f) < WINDOW || HAS(taken[r], (f) - WINDOW)))
#endif

/* The first transmission of rank r's DATA for fragment f. */
inline contribute()
{
	e = epoch;
	set = BIT(r);
	sent[r] = sent[r] | BIT(f);
	if
	:: past[r] -> at_aggregator()
	:: !past[r] -> at_switch()
	:: losses < LOSSES -> losses++
	:: duplicates < DUPLICATES -> duplicates++; net[MESSAGE(UP + r, e, f)]++ /* late */
	:: duplicates < DUPLICATES ->
		duplicates++;
		net[MESSAGE(UP + r, e, f)]++;
		at_switch()
	fi
}

#define IN_SLOT(s) (slot[s].used && slot[s].epoch == e && slot[s].frag == f && HAS(slot[s].seen, r))
#define IN_ROUND   (round[n].state != FREE && round[n].frag == f && HAS(round[n].seen, r))

/* What timers, PROBE and NEED come to: rank r's contribution to f is sent again, past the slots,
 * if it is nowhere; or too early, as a duplicate. */
inline recover()
{
	e = epoch;
	n = ROUND(f);
	yes = net[MESSAGE(UP + r, e, f)] == 0 && net[MESSAGE(SINGLE + r, e, f)] == 0 &&
	      !IN_SLOT(f % SLOTS) && !IN_ROUND;
	for (i : 1 .. SETS - 1) {
		yes = yes && !(HAS(i, r) && net[MESSAGE(SUM + i, e, f)] > 0)
	}
	set = BIT(r);
	if
	:: yes -> at_aggregator()
	:: duplicates < DUPLICATES -> duplicates++; net[MESSAGE(SINGLE + r, e, f)]++
	:: !yes
	fi
}

/* ---- everything ------------------------------------------------------------------------ */

inline deliver()
{
	f = x % FRAGMENTS;
	k = (x / FRAGMENTS) % KINDS;
	e = x / FRAGMENTS / KINDS;
	if
	:: k < SINGLE -> r = k; at_switch()
	:: k >= SINGLE && k < SINGLE + RANKS -> set = BIT(k - SINGLE); at_aggregator()
	:: k >= SINGLE + RANKS -> set = k - SUM; at_aggregator()
	fi
}

/* Options, one for each message in the network. */
#define M1(j)  :: (j) < NET && net[(j) % NET] > 0 -> x = j
#define M5(j)  M1(j) M1(j + 1) M1(j + 2) M1(j + 3) M1(j + 4)
#define M20(j) M5(j) M5(j + 5) M5(j + 10) M5(j + 15)
#define M80(j) M20(j) M20(j + 20) M20(j + 40) M20(j + 60)

/* Options, one for each rank, or for each fragment of each. */
#define RANK(j, guard) :: guard(j) -> r = j
#define EACH_RANK(guard) RANK(0, guard) RANK(1, guard) RANK(2, guard)
#define FRAG(q, j, guard) :: guard(q, j) -> r = q; f = j
#define FRAGS(q, guard) FRAG(q, 0, guard) FRAG(q, 1, guard) FRAG(q, 2, guard) FRAG(q, 3, guard) \
			FRAG(q, 4, guard) FRAG(q, 5, guard)
#define EACH_FRAG(guard) FRAGS(0, guard) FRAGS(1, guard) FRAGS(2, guard)

#define IS_BEHIND(r)	  (epoch_of[r] != epoch)
#define MAY_MOVE(r)	  (failovers < FAILOVERS && !past[r])
#define MAY_RECOVER(r, f) (epoch_of[r] == epoch && HAS(sent[r], f) && !HAS(taken[r], f))
#define MAY_TAKE(r, f)	  (HAS(finished[0], f) && HAS(sent[r], f) && !HAS(taken[r], f))
#define MAY_TAKE_2(r, f)  (EPOCHS > 1 && HAS(finished[EPOCHS - 1], f) && HAS(sent[r], f) && \
			   !HAS(taken[r], f))

active proctype everything()
{
	do
	/* The network delivers, brings twice, or loses. */
	:: atomic {
		if
		M80(0)
		M80(80)
		fi;
		if
		:: net[x]--; deliver()
		:: duplicates < DUPLICATES -> duplicates++; deliver()
		:: losses < LOSSES -> losses++; net[x]--
		fi
	   }
	/* A result that was once sent may come at any time, and again.  Nothing is said of when it
	 * is lost: open() asserts that the round has it for as long as anybody may need it. */
	:: atomic {
		if
		EACH_FRAG(MAY_TAKE)
		fi;
		e = 0;
		at_worker()
	   }
	:: atomic {
		if
		EACH_FRAG(MAY_TAKE_2)
		fi;
		e = EPOCHS - 1;
		at_worker()
	   }
	:: atomic {
		if
		EACH_FRAG(MAY_SEND)
		fi;
		contribute()
	   }
	:: atomic {
		if
		EACH_FRAG(MAY_RECOVER)
		fi;
		recover()
	   }
	/* The switch evicts. */
	:: atomic {
		if
		:: slot[0].seen != 0 -> s = 0
		:: SLOTS > 1 && slot[SLOTS - 1].seen != 0 -> s = SLOTS - 1
		fi;
		send_sum(s)
	   }
	:: atomic {
		if
		EACH_RANK(MAY_MOVE)
		fi;
		failovers++;
		past[r] = true
	   }
	:: atomic {
		switch_restarts < SWITCH_RESTARTS ->
		switch_restarts++;
		for (s : 0 .. SLOTS - 1) {
			forget_slot(s)
		}
	   }
	:: atomic {
		aggregator_restarts < AGGREGATOR_RESTARTS ->
		aggregator_restarts++;
		epoch++;
		for (n : 0 .. ROUNDS - 1) {
			round[n].state = FREE;
			round[n].frag = 0;
			round[n].seen = 0;
			clear(round[n].is)
		}
	   }
	:: atomic {
		if
		EACH_RANK(IS_BEHIND)
		fi;
		epoch_of[r] = epoch;
		sent[r] = 0;
		taken[r] = 0
	   }
	:: READY && taken[0] == EVERY && taken[1] == EVERY && taken[2] == EVERY -> break
	od
}
