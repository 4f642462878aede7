/*
 * Members that forgot: may two clients believe in the lock at once?
 *
 * N members (three, unless said), C clients that acquire, renew and release again and again, for ever: all times are
 * counted down, so the search is complete without an end of time. Requests are delayed, reordered and lost as the
 * adversary likes; one that arrives after its round was given up takes the member for nobody (GHOST), as its id is not
 * that of any later round. A client believes from the send time of the round that won (or renewed) until TTL later, and
 * not a tick longer. Any member may restart empty, at any moment, any number of times.
 *
 *   TTL         in ticks
 *   QUARANTINE  ticks for which a restarted member votes for nobody
 *   RESTARTS    members may restart
 *   JUMP        one member's clock may jump ahead by this many ticks, once
 */
#ifndef N
#define N 3
#endif
#ifndef C
#define C 2
#endif
#ifndef TTL
#define TTL 2
#endif
#ifndef QUARANTINE
#define QUARANTINE 0
#endif
#define MAJORITY (N / 2 + 1)
#define GHOST (C + 1)
#define IDLE 0
#define ASKING 1
#define HOLDING 2

byte holder[N];                 /* 0: free; client + 1; GHOST: a round that nobody counts any more */
byte left[N];                   /* ticks until the member lets go by itself */
byte young[N];                  /* ticks until a restarted member votes again */
byte phase[C];
byte age[C];                    /* ticks since the round was sent that this client's belief rests on */
bit granted[C * N];
bit renewing[C];
byte renewAge[C];               /* ticks since the renewal was sent */
bit renewed[C * N];
bit jumped;

#define at(c, m) ((c) * N + (m))

inline forget(c) {
  phase[c] = IDLE; age[c] = 0; renewing[c] = 0; renewAge[c] = 0;
  m = 0;
  do
  :: m < N ->
     granted[at(c, m)] = 0; renewed[at(c, m)] = 0;
     /* Whatever it still holds is held for an id that no round will use again. */
     if :: holder[m] == c + 1 -> holder[m] = GHOST :: else fi;
     m++
  :: else -> break
  od;
  m = 0
}

active proctype world() {
  byte c, m, n;
  do
  :: atomic { select(c : 0 .. C - 1); if :: phase[c] == IDLE -> phase[c] = ASKING; age[c] = 0 :: else fi; c = 0 }
  /* A member takes a vote. */
  :: atomic {
       select(c : 0 .. C - 1); select(m : 0 .. N - 1);
       if
       :: phase[c] != IDLE && !granted[at(c, m)] && holder[m] == 0 && young[m] == 0 ->
          holder[m] = c + 1; left[m] = TTL;
          /* After the win a late vote is held, and renewed, but the win does not rest on it. */
          granted[at(c, m)] = 1
       :: else
       fi;
       c = 0; m = 0
     }
  /* A vote of a round that is over arrives. */
  :: atomic {
       select(m : 0 .. N - 1);
       if :: holder[m] == 0 && young[m] == 0 -> holder[m] = GHOST; left[m] = TTL :: else fi;
       m = 0
     }
  /* A client counts its votes. */
  :: atomic {
       select(c : 0 .. C - 1);
       if
       :: phase[c] == ASKING ->
          n = 0;
          do :: m < N -> if :: granted[at(c, m)] -> n++ :: else fi; m++ :: else -> break od;
          m = 0;
          if
          :: n >= MAJORITY && age[c] < TTL ->
             do :: m < C -> assert(m == c || phase[m] != HOLDING || age[m] >= TTL); m++ :: else -> break od;
             m = 0;
             phase[c] = HOLDING
          :: else
          fi;
          n = 0
       :: else
       fi;
       c = 0
     }
  :: atomic { select(c : 0 .. C - 1); if :: phase[c] == HOLDING && !renewing[c] -> renewing[c] = 1 :: else fi; c = 0 }
  /* A member takes a renewal: only where the client's round still holds it. */
  :: atomic {
       select(c : 0 .. C - 1); select(m : 0 .. N - 1);
       if
       :: renewing[c] && !renewed[at(c, m)] && holder[m] == c + 1 -> left[m] = TTL; renewed[at(c, m)] = 1
       :: else
       fi;
       c = 0; m = 0
     }
  /* A client counts its renewals: a majority, and within the old trust. */
  :: atomic {
       select(c : 0 .. C - 1);
       if
       :: renewing[c] && age[c] < TTL ->
          n = 0;
          do :: m < N -> if :: renewed[at(c, m)] -> n++ :: else fi; m++ :: else -> break od;
          m = 0;
          if
          :: n >= MAJORITY ->
             do :: m < C -> assert(m == c || phase[m] != HOLDING || age[m] >= TTL); m++ :: else -> break od;
             m = 0;
             age[c] = renewAge[c]; renewAge[c] = 0; renewing[c] = 0;
             do :: m < N -> renewed[at(c, m)] = 0; m++ :: else -> break od;
             m = 0
          :: else
          fi;
          n = 0
       :: else
       fi;
       c = 0
     }
  /* A client gives up, is done, or was told that its time is over. */
  :: atomic { select(c : 0 .. C - 1); if :: phase[c] != IDLE -> forget(c) :: else fi; c = 0 }
  /* A member is released, or never hears of it. */
  :: atomic { select(m : 0 .. N - 1); if :: holder[m] == GHOST -> holder[m] = 0; left[m] = 0 :: else fi; m = 0 }
#ifdef RESTARTS
  :: atomic { select(m : 0 .. N - 1); holder[m] = 0; left[m] = 0; young[m] = QUARANTINE; m = 0 }
#endif
#ifdef JUMP
  :: atomic {
       select(m : 0 .. N - 1);
       if
       :: !jumped -> jumped = 1;
          left[m] = (left[m] > JUMP -> left[m] - JUMP : 0);
          young[m] = (young[m] > JUMP -> young[m] - JUMP : 0);
          if :: left[m] == 0 -> holder[m] = 0 :: else fi
       :: else
       fi;
       m = 0
     }
#endif
  /* Time passes, for all alike. */
  :: atomic {
       do
       :: c < C ->
          if :: phase[c] != IDLE && age[c] < TTL -> age[c]++ :: else fi;
          if :: renewing[c] && renewAge[c] < TTL -> renewAge[c]++ :: else fi;
          c++
       :: else -> break
       od;
       c = 0;
       do
       :: m < N ->
          if :: left[m] > 0 -> left[m]--; if :: left[m] == 0 -> holder[m] = 0 :: else fi :: else fi;
          if :: young[m] > 0 -> young[m]-- :: else fi;
          m++
       :: else -> break
       od;
       m = 0
     }
  od
}
