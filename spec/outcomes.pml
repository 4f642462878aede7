/*
 * Outcomes: may work begin though what it came to is kept, and may one lease leave two outcomes?
 *
 * One store, C claims of which the first W want an outcome instead of the lock where there is one; the others are plain. The
 * adversary delays and loses requests and replies as it likes, and delivers any request again at any later time: an attempt of a
 * claim that is long over, a release whose reply was lost. A holder may crash at any moment, also between its work and its
 * release. The store ends a lease at any moment, and the holder's trust has ended before: a grant that is heard after that is not
 * believed. What is kept may be over, or be forgotten, at any moment. At most F leases, so that the search ends.
 *
 *   SPLIT      the release ends the lease, and stores the outcome in a second step
 *   UNCHECKED  the store keeps the outcome of any claim that once held
 *   LOOKFIRST  a claim looks for an outcome before it asks for the lock, not in the same step
 *   HANDOVER   a release with an outcome hands the lock to the next waiter, also to one that wants the outcome
 *   LATE       a grant is believed that is heard when the lease is over
 *   PERWORK    also: no work leaves two outcomes, not even under two leases
 *   FENCED     the release names the fence of its lease
 */
#ifndef C
#define C 2
#endif
#ifndef W
#define W C
#endif
#ifndef F
#define F 3
#endif
#define IDLE 0
#define ASKING 1
#define WORKING 2
#define RELEASING 3
#define OVER 4

byte holder;                    /* 0: free; else claim + 1 */
byte fence;                     /* of the lease that is, or was the last */
bit kept;                       /* an outcome is kept */
bit isQueued[C];
byte phase[C];
byte grant[C];                  /* a grant is on its way, with this fence; 0: none that would be believed */
bit done[C];                    /* the outcome is on its way to the claim */
byte under[C];                  /* the fence under which it works */
bit isSent[C];                  /* a release was sent: it arrives, perhaps, at any time, and any number of times */
byte left[F + 1];               /* how many outcomes the lease with this fence has left */
byte stored[C];                 /* how many outcomes this claim's work has left */
byte second;                    /* SPLIT: whose outcome is still to be stored; 0: none */

#define wants(k) ((k) < W)

inline give(k) {
  fence++;
  holder = k + 1;
  grant[k] = fence;
  isQueued[k] = 0
}

/* The lock is free: a waiter gets it, whichever. */
inline handOver() {
  j = 0;
  do
  :: j < C && isQueued[j] && fence < F -> give(j); break
  :: j < C -> j++
  :: j == C -> break
  od;
  j = 0
}

inline keep(k) {
  left[under[k]]++;
  assert(left[under[k]] <= 1);                      /* at most one outcome per lease */
  stored[k]++;
#ifdef PERWORK
  assert(stored[k] <= 1);
#endif
  kept = 1
}

active proctype world() {
  byte k, j;
  do
  :: atomic {
       select(k : 0 .. C - 1);
       if
#ifdef LOOKFIRST
       :: phase[k] == IDLE && !(wants(k) && kept) -> phase[k] = ASKING
#else
       :: phase[k] == IDLE -> phase[k] = ASKING
#endif
       :: else
       fi;
       k = 0
     }
  /* The store takes an attempt, also one that is long on its way. */
  :: atomic {
       select(k : 0 .. C - 1);
       if
       :: phase[k] != IDLE ->
          if
          :: holder == k + 1 -> grant[k] = fence
#ifndef LOOKFIRST
          :: holder != k + 1 && wants(k) && kept -> done[k] = 1; isQueued[k] = 0
          :: holder == 0 && !(wants(k) && kept) && fence < F -> give(k)
          :: holder != 0 && holder != k + 1 && !(wants(k) && kept) -> isQueued[k] = 1
#else
          :: holder == 0 && fence < F -> give(k)
          :: holder != 0 && holder != k + 1 -> isQueued[k] = 1
#endif
          :: else
          fi
       :: else
       fi;
       k = 0
     }
  /* The claimant hears of its grant, and begins. */
  :: atomic {
       select(k : 0 .. C - 1);
       if
       :: phase[k] == ASKING && grant[k] > 0 ->
          assert(!wants(k) || !kept);               /* no work begins while an outcome is kept */
          phase[k] = WORKING; under[k] = grant[k]; grant[k] = 0
       :: else
       fi;
       k = 0
     }
  :: atomic { select(k : 0 .. C - 1); if :: phase[k] == ASKING && done[k] -> phase[k] = OVER; done[k] = 0 :: else fi; k = 0 }
  :: atomic { select(k : 0 .. C - 1); if :: phase[k] == WORKING -> phase[k] = RELEASING; isSent[k] = 1 :: else fi; k = 0 }
  /* A claimant crashes, gives up, or has heard that its release was done. */
  :: atomic { select(k : 0 .. C - 1); if :: phase[k] != IDLE -> phase[k] = OVER :: else fi; k = 0 }
  /* The store takes a release: the first, or one that is asked for again, or one that is long on its way. */
  :: atomic {
       select(k : 0 .. C - 1);
       if
       :: isSent[k] ->
          if
#if defined(SPLIT)
          :: holder == k + 1 && second == 0 -> holder = 0; second = k + 1; handOver()
#elif defined(UNCHECKED)
          :: wants(k) ->
             keep(k);
             if :: holder == k + 1 -> holder = 0 :: else fi
#else
#ifdef FENCED
          :: holder == k + 1 && fence == under[k] ->
#else
          :: holder == k + 1 ->
#endif
             holder = 0;
             if
             :: wants(k) ->
                /* Without its fence, a release counts for the lease that the claim has now. */
                under[k] = fence;
                keep(k);
#ifndef HANDOVER
                /* Who waits for an outcome has it. */
                j = 0;
                do :: j < C -> if :: wants(j) -> isQueued[j] = 0 :: else fi; j++ :: else -> break od;
                j = 0;
#endif
             :: else
             fi;
             handOver()
#endif
          :: else
          fi
       :: else
       fi;
       k = 0
     }
#ifdef SPLIT
  :: atomic { second > 0 -> k = second - 1; if :: wants(k) -> keep(k) :: else fi; second = 0; k = 0 }
#endif
  /* The lease is over: its time, or its holder. Who trusted it does so no longer. */
  :: atomic {
       holder > 0 ->
#ifndef LATE
       grant[holder - 1] = 0;
#endif
       holder = 0;
       handOver()
     }
  /* The outcome is over, or forgotten. */
  :: atomic { kept = 0 }
  od
}
