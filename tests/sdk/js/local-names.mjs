// Names below `localhost` are this machine's; Node asks the resolver, which need not know that.

import dns from 'node:dns'

const lookup = dns.lookup
dns.lookup = (host, options, callback) => lookup(host.endsWith('.localhost') ? '127.0.0.1' : host, options, callback)
