-- lib/shard: names all keys of the shard, for the scripts that may touch each of them.
local K = {
  jobs = KEYS[1], stats = KEYS[2], wake = KEYS[3], sessions = KEYS[4], held = KEYS[5], dead = KEYS[6],
  error = KEYS[7], done = KEYS[8], unique = KEYS[9], tombs = KEYS[10],
  due = { KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17], KEYS[18], KEYS[19], KEYS[20] },
}
