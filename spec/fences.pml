/*
 * Fences from independent members: may two leases ever get the same number, or a later one a smaller?
 *
 * N members (three, unless said), K attempts (every round of every client is an attempt of its own, under an id of its own). The
 * adversary delays, reorders and loses requests and replies as it likes, delivers a request after its attempt was given
 * up, repeats a refused one, and with EARLY ends any hold at any member at any moment: which covers expiry, a clock that
 * jumped, an evicted entry, and a client that slept through its whole lease. Nothing here knows time.
 *
 *   BALLOT     the attempt proposes the fence; a member grants it if free and above every fence it granted   (Holdfast)
 *   MAXIMUM    every member counts by itself; the fence is the greatest number among a majority's grants
 *   WRITEBACK  the same, and the greatest number is written back to a majority before it is used
 *   EARLY      holds may end at any moment
 *   FORGETS    one member restarts empty, once (its counter too), while proposals are any number
 *   UNORDERED  BALLOT without its rule: a free member grants whatever is proposed
 *   WITHDRAW   a member that is told that an attempt became no lease forgets its ballot too                   (Holdfast)
 *   CARELESS   the same, but also for attempts that became one
 *
 * After a grant, an attempt's request may still reach a member that has not granted it: the late vote and the refill.
 */
#ifndef K
#define K 2
#endif
#ifndef TOP
#define TOP (K + 1)             /* the greatest ballot, or how far counters may start apart */
#endif
#ifndef N
#define N 3
#endif
#define MAJORITY (N / 2 + 1)
#define IDLE 0
#define ASKING 1
#define RAISING 2               /* WRITEBACK: a fence is chosen, its acknowledgements are counted */
#define HOLDING 3
#define OVER 4

byte holder[N];                 /* 0: free; else attempt + 1 */
byte last[N];                   /* the greatest fence granted here */
byte phase[K];
byte fence[K];
byte floor[K];                  /* the greatest fence in use before this attempt began */
byte granted[K * N];            /* what member m answered to attempt k: its number; 0: no grant */
bit acked[K * N];               /* WRITEBACK: member m was raised for attempt k */
bit used[K];                    /* attempt k became a lease */
byte greatest;                  /* the greatest fence in use so far */
bit forgot;
byte before[N];                 /* WITHDRAW: the greatest fence granted here before the holder's */

#define at(k, m) ((k) * N + (m))
#if defined(BALLOT) && !defined(UNORDERED)
#define ALLOWED(k, m) (fence[k] > last[m])
#else
#define ALLOWED(k, m) true
#endif

/* The lease begins: what it must never be. */
inline begin(k) {
  assert(fence[k] > floor[k]);                      /* above every lease that was known before it was asked for */
#ifndef EARLY
  assert(fence[k] > greatest);                      /* holds end in time: above every lease before it */
#endif
  j = 0;
  do
  :: j < K -> assert(j == k || !used[j] || fence[j] != fence[k]);      /* never twice */
#if !defined(EARLY) && !defined(FORGETS)
     assert(j == k || phase[j] != HOLDING);                            /* holds end in time: never two at once */
#endif
     j++
  :: else -> break
  od;
  j = 0;
  used[k] = 1;
  if :: fence[k] > greatest -> greatest = fence[k] :: else fi;
  phase[k] = HOLDING
}

active proctype world() {
  byte k, m, j, n;
#ifndef BALLOT
  /* Earlier failed attempts left the counters apart. */
  m = 0;
  do :: m < N -> if :: last[m] = 0 :: last[m] = 1 :: last[m] = 2 fi; m++ :: else -> break od;
  m = 0;
#endif
  do
  /* A client begins an attempt. They begin in the order of their numbers, as they are all alike. */
  :: atomic {
       k = 0;
       do :: k < K && phase[k] != IDLE -> k++ :: else -> break od;
       if :: k < K ->
            phase[k] = ASKING;
            floor[k] = greatest;
#ifdef BALLOT
            select(n : 1 .. TOP);
            fence[k] = n;
            n = 0
#endif
          :: else fi;
       k = 0
     }
  /* A member takes a request, whenever it arrives. */
  :: atomic {
       select(k : 0 .. K - 1); select(m : 0 .. N - 1);
       if
       :: phase[k] != IDLE && granted[at(k, m)] == 0 && holder[m] == 0 && ALLOWED(k, m) ->
          holder[m] = k + 1;
#ifdef BALLOT
#ifdef WITHDRAW
          before[m] = last[m];
#endif
          if :: fence[k] > last[m] -> last[m] = fence[k] :: else fi;
          granted[at(k, m)] = 1
#else
          last[m]++;
          granted[at(k, m)] = last[m]
#endif
#ifdef WRITEBACK
       :: phase[k] == RAISING && !acked[at(k, m)] ->
          acked[at(k, m)] = 1;
          if :: last[m] < fence[k] -> last[m] = fence[k] :: else fi
#endif
       :: else
       fi;
       k = 0; m = 0
     }
  /* A client counts what it has heard so far: any part of the grants given. */
  :: atomic {
       select(k : 0 .. K - 1);
       if
       :: phase[k] == ASKING ->
          n = 0; j = 0; m = 0;
          do
          :: m < N ->
             if
             :: granted[at(k, m)] > 0 -> n++;
#ifndef BALLOT
                if :: granted[at(k, m)] > j -> j = granted[at(k, m)] :: else fi
             :: granted[at(k, m)] > 0                                  /* the answer is still under way */
#endif
             :: granted[at(k, m)] == 0
             fi;
             m++
          :: else -> break
          od;
          m = 0;
          if
          :: n >= MAJORITY ->
             n = 0;
#if defined(BALLOT)
             begin(k)
#elif defined(MAXIMUM)
             fence[k] = j; j = 0; begin(k)
#else
             fence[k] = j; j = 0;
             do
             :: m < N -> if :: granted[at(k, m)] == fence[k] -> acked[at(k, m)] = 1; n++ :: else fi; m++
             :: else -> break
             od;
             m = 0;
             if :: n >= MAJORITY -> begin(k) :: else -> phase[k] = RAISING fi;
             n = 0
#endif
          :: else -> n = 0; j = 0
          fi
#ifdef WRITEBACK
       :: phase[k] == RAISING ->
          n = 0;
          do :: m < N -> if :: acked[at(k, m)] -> n++ :: else fi; m++ :: else -> break od;
          m = 0;
          if :: n >= MAJORITY -> begin(k) :: else fi;
          n = 0
#endif
       :: else
       fi;
       k = 0
     }
#if defined(BALLOT) && !defined(FORGETS)
  /* A holder renews: while a majority still holds its ballot, no greater fence can have been in use. */
  :: atomic {
       select(k : 0 .. K - 1);
       if
       :: phase[k] == HOLDING ->
          n = 0;
          do :: m < N -> if :: holder[m] == k + 1 -> n++ :: else fi; m++ :: else -> break od;
          m = 0;
          assert(n < MAJORITY || fence[k] == greatest);
          n = 0
       :: else
       fi;
       k = 0
     }
#endif
  /* A client gives up, or is done. */
  :: atomic {
       select(k : 0 .. K - 1);
       if :: phase[k] > IDLE && phase[k] < OVER -> phase[k] = OVER :: else fi;
       k = 0
     }
  /* A member lets go. */
  :: atomic {
       select(m : 0 .. N - 1);
       if
       :: holder[m] > 0 ->
#ifdef EARLY
          holder[m] = 0
#else
          if :: phase[holder[m] - 1] == OVER -> holder[m] = 0 :: else fi
#endif
       :: else
       fi;
       m = 0
     }
#ifdef WITHDRAW
  /* A vote is taken back. Its request may arrive once more after that. */
  :: atomic {
       select(m : 0 .. N - 1);
       if
       :: holder[m] > 0 ->
          k = holder[m] - 1;
          if
#ifdef CARELESS
          :: phase[k] == OVER ->
#else
          :: phase[k] == OVER && !used[k] ->
#endif
             holder[m] = 0; granted[at(k, m)] = 0;
             if :: last[m] == fence[k] -> last[m] = before[m] :: else fi;
             before[m] = 0
          :: else
          fi
       :: else
       fi;
       k = 0; m = 0
     }
#endif
#ifdef FORGETS
  :: atomic {
       select(m : 0 .. N - 1);
       if :: !forgot -> forgot = 1; holder[m] = 0; last[m] = 0 :: else fi;
       m = 0
     }
#endif
  od
}
