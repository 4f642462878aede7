/*
 * A lease that is kept after its work: does who waits get the lock in bounded time, though every hint is lost?
 *
 * A holder works for at most WORK ticks, then keeps the lease for at most LINGER ticks, in case that more work of its process
 * comes, and lets go at once where it knows that it is wanted. Another process queues at any moment. The holder learns of it by a
 * hint, which may be lost, or by the answer to a renewal. Without an answer for TTL ticks the lease is over. The waiter may give
 * up, and another come.
 *
 *   LOST     every hint is lost
 *   NOBIT    the answers to renewals do not say it
 *   ONCE     no more work of the holder's process comes
 *   FOREVER  a lease is kept until it is known to be wanted
 *   DEAF     the holder goes on with more work though it knows that it is wanted
 */
#ifndef WORK
#define WORK 2
#endif
#ifndef LINGER
#define LINGER 2
#endif
#ifndef TTL
#define TTL 3
#endif
/* At worst a renewal was answered just before: then the next answer, or the end of the lease, and the rest of the work. */
#define BOUND (TTL + WORK + LINGER)
#define FREE 0
#define WORKING 1
#define LINGERING 2

byte phase;
byte age;                       /* ticks in this phase */
byte unheard;                   /* ticks since the renewal was sent that was answered last */
byte waited;
bit waiting;
bit knows;
bit unused;

#ifdef FOREVER
#define MUSTGO (phase == LINGERING && knows)
#else
#define MUSTGO (phase == LINGERING && (knows || age >= LINGER))
#endif

inline letGo() {
  phase = FREE; age = 0; unheard = 0; knows = 0; waiting = 0; waited = 0
}

active proctype world() {
  do
  /* Whoever waits has got the lock by now, and is done with it: this process takes it again. */
  :: atomic { phase == FREE && !waiting -> phase = WORKING; age = 0; unheard = 0; knows = 0 }
  :: atomic { phase == WORKING -> phase = LINGERING; age = 0 }
#ifndef ONCE
#ifdef DEAF
  :: atomic { phase == LINGERING -> phase = WORKING; age = 0 }
#else
  :: atomic { phase == LINGERING && !knows -> phase = WORKING; age = 0 }
#endif
#endif
  :: atomic {
       phase != FREE && !waiting -> waiting = 1; waited = 0;
#ifndef LOST
       if :: knows = 1 :: unused = 0 fi
#endif
     }
  :: atomic { waiting -> waiting = 0; waited = 0 }
  /* A renewal is answered, in time. */
#ifdef NOBIT
  :: atomic { phase != FREE && unheard < TTL -> unheard = 0 }
#else
  :: atomic { phase != FREE && unheard < TTL -> unheard = 0; knows = waiting }
#endif
  :: atomic { MUSTGO -> letGo() }
  :: atomic { phase != FREE && unheard >= TTL -> letGo() }
  /* Time passes when all is done that is due. */
  :: atomic {
       phase != FREE && !MUSTGO && unheard < TTL && !(phase == WORKING && age >= WORK) ->
       if :: age < WORK + LINGER -> age++ :: else fi;
       unheard++;
       if
       :: waiting -> waited++; assert(waited <= BOUND)
       :: else
       fi
     }
  od
}
