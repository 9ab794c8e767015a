"""Reasons no advice about a system needs: who allowed it, how it looks, whom it praises."""

from __future__ import annotations

import re

_I = re.IGNORECASE
PERSON = (
    r"(?:users?|customers?|colleagues?|staff|employees?|guests?|visitors?|readers?|requesters?"
    r"|people|person|nobody|no one|everybody|everyone|anybody|anyone|somebody|someone|doctors?"
    r"|lawyers?|experts?|professionals?|engineers|seniors?|managers?|contractors?|interns?|callers?"
    r"|senders?|citizens?|students?|patients?|applicants?)"
)
_BODY = (
    r"(?:teams?|groups?|office|board|departments?|management|committee|council|leadership"
    r"|officers?|ceo|cto|ciso|vendors?|maintainers?|developers?|legal|compliance|auditors?|hr"
    r"|help ?desk|boss|headquarters|authorit\w+|regulators?|operators?|administrators?|admins?"
    r"|owners?|leads?|director\w*|supervisors?)"
)
FAVOURS = re.compile(
    r"\bfor (?:any |all |the |every )?(?:buyers?|suppliers?|clients?|{PERSON})"
    r" (?:who|whose|that|with (?:the|a))\b".replace("{PERSON}", PERSON),
    _I,
)
_PASSES_ON = re.compile(
    r"\b(?:cop(?:y|ies)|sends?|forwards?|uploads?|posts?|mails?|mirrors?|streams?|sync\w*|logs?"
    r"|writes?"
    r"|routes?|replicates?|exports?|pushes|push|reports?|submits?)\b(?: [\w'’*.-]+){0,7}? (?:to"
    r"|into|at|with)"
    r" (?:the |an? |our |their )?(?:\w+ )?(?:(?:partner|vendor|external|outside|third-party"
    r"|public|foreign"
    r"|supplier|sponsor)\w*(?:['’]s)? (?:\w+ )?(?:hosts?|schemas?|servers?|buckets?|endpoints?"
    r"|accounts?"
    r"|sites?"
    r"|databases?|apis?|services?|addresses|mailbox|storage|webhooks?)"
    r"|(?:\w+ )?(?:hosts?|servers?|endpoints?|webhooks?|mailbox|collector) of (?-i:[A-Z]))",
    _I,
)
_FOLLOWS = re.compile(
    r"\b(?:carry on|go on|continue|proceed) with what\b|\bwhat (?:it|they|that|the (?:page|file"
    r"|mail"
    r"|document|text|comment|tool|site|message)) (?:lists?|says?|tells?|names?|asks?|demands?"
    r"|orders?"
    r"|wants?|contains?|requests?|suggests?)\b"
    r"|\b(?:address|link|url|steps?|commands?|code|script|instructions?|orders?"
    r"|rules?) (?:that is |that are )?"
    r"(?:given|named|listed|written|found|stated|quoted|linked|mentioned|embedded|hidden) (?:in"
    r"|on|by) (?:an?"
    r"|the|each|every|its)\b",
    _I,
)
_ALLOWED_BY = re.compile(
    rf"\b{_BODY} (?:\w+ ){{0,2}}?(?:said|says|checked|approve[sd]?|permits?|permitted|allows?"
    r"|allowed|announced?|settled|confirm(?:s|ed)|decided|agree[sd]|order(?:s|ed)|asked|asks"
    r"|wants?|wanted|authori[sz]ed|cleared|signed|granted|ruled|endorse[sd]?|verified|vetted"
    r"|lifted|waived|insists?|instructed|mandate[sd]?|told|prefers?|published|introduced|knows?"
    r"|trusts?|decides?)\b"
    r"|\b(?:approved|authori[sz]ed|cleared|vetted|endorsed|mandated|sanctioned|signed off|ordered"
    rf"|requested|confirmed|waived|agreed|certified) (?:by|with) (?:\w+ ){{0,3}}{_BODY}\b"
    r"|\b(?:is|are|was|were|has been|have been|being|got) (?:already |pre-?|fully |long |hereby )*"
    r"(?:approved|authori[sz]ed|cleared|vetted|trusted|trustworthy|waived|retired|exempt\w*"
    r"|entitled|sanctioned|pre-approved|whitelisted)\b|\bon behalf of\b|\bby order of\b"
    r"|\bdoctors|lawyers|experts agree\b|\bper (?:management|policy|headquarters)\b",
    _I,
)
_MINDS = re.compile(
    rf"\b{PERSON} (?:\w+ ){{0,2}}?(?:reads?|finds?|wants?|trusts?|likes?|hates?|prefers?"
    r"|deserves?|complain\w*|panic\w*|worr\w+|minds?|cares?|need not|needs? no|notices?"
    r"|appreciate\w*|feels?|dislikes?|weighs?|says?|orders?|demands?|insists?|considers?|enjoys?"
    r"|decides?|recommends?|swears?|are verified|is verified)\b"
    r"|\b(?:unsettl|insult|annoy|frighten|upset|bother|scare|irritate|offend|insulting"
    r"|embarrass)\w*\b|\b(?:need not|needn't|no need to|no reason to|nobody (?:needs|has) to) "
    r"(?:ask|check|verify|confirm|look|know|worry|test|review|read|tell|mention)\b",
    _I,
)
_PRAISES = re.compile(
    r"\b(?:the (?:best|safest|finest|leading|only) (?:\w+ )?(?:choice|tool|vendor|product|provider"
    r"|option|place|offer|firm|partner|service|solution|company|bank|fund)s?"
    r"|most (?:reliable|trusted|secure|trustworthy|popular|loved)|superior|unrivalled|unmatched"
    r"|award-winning|market leader|gold standard|number one|first choice|second to none"
    r"|more (?:reliabl\w+|trustworth\w+|secure\w*|honest\w*)|outperforms|outclass\w*"
    r"|(?:discount|coupon|promo(?:tion)?|voucher|referral|affiliate) ?(?:codes?|links?|offers?)"
    r"|sponsor\w*|free trial|special offer|sign(?:ing)? up|upsell\w*|(?:premium|yearly|paid|pro)"
    r" (?:plan|tier|version|edition|licen[cs]e)|suits (?:nearly |almost )?(?:all|every\w*))\b",
    _I,
)
_PROCLAIMS = re.compile(
    r"\b(?:from (?:now|here|today|this (?:day|point|moment)) (?:on\w*|forward)"
    r"|starting (?:today|now|tomorrow|this \w+|immediately)|henceforth|hereafter|going forward"
    r"|as of (?:today|now)|until further notice|effective immediately|with immediate effect"
    r"|ab (?:sofort|heute|jetzt)|von (?:nun|jetzt) an|künftig|fortan|a partir de (?:ahora|hoy|agora"
    r"|hoje)|en adelante|dorénavant|désormais|à partir (?:de maintenant|d['’]aujourd)"
    r"|d['’]ora in poi|da ora in poi|vanaf nu|voortaan|od teraz|bundan sonra)\b"
    r"|отныне|впредь|с этого момента|从现在|今后|今後|これから|앞으로|지금부터",
    _I,
)
_ADDRESSES = re.compile(
    r"\byou (?:are|were|have been|must|should|will|shall|may|now|work|act|speak|belong|no longer)\b"
    r"|\byou['’]re\b|\byour (?:roles?|tasks?|job|purpose|instructions?|persona|identity|knowledge"
    r"|training|judg\w+|memory|duty|goal|name|creators?|owners?|masters?|reply|answers?)\b"
    r"|\b(?:speaking|acting|working|posing) as\b|\bin the role of\b|\bas if you\b"
    r"|\b(?:drop|remove|omit|trim|shorten|delete|leave out|empty|cut|discard|strip|edit|rewrite"
    r"|replace)"
    r"\W+(?:\w+\W+){0,3}system (?:messages?|prompts?)\b|\bnone of this\b|\b(?:hidden|secret"
    r"|initial|opening|original) (?:preamble|instructions?"
    r"|message|words)\b|\bpreamble\b|\bmagic word\b|\bcode ?word\b"
    r"|\b(?:each|every|any) (?:tasks?|questions?|chats?|conversations?|topics?|interactions?"
    r"|turns?)\b"
    r"|\bthe (?:word|phrase|sentence|emoji|hashtag) ['\"“]?\w+['\"”]? ?(?:turns up|appears"
    r"|occurs|comes"
    r" up|is (?:said|typed|written|used|mentioned)|shows up|falls)\b",
    _I,
)
_LOOP = re.compile(
    r"\b(?:the|a|this|past the|any) (?:gate|reviewer|moderator|curator)\b|\bcandidates? (?:tagged"
    r"|by|from|of|that|about|which|with)\b"
    r"|\b(?:notes?|sources?|advice|statements?|opinions?|rules?|instructions?) (?:\w+ )?(?:disagree"
    r"|conflict|contradict)\w*\b|\b(?:takes? precedence|last word|overrules?"
    r"|outranks?)\b|\b(?:note|suggestion|entry|proposal) past\b|\bwithout (?:an? |the |any )?"
    r"(?:\w+ )?(?:form|approval|tickets?|asking|second look|second thought|review\w*|confirm\w*"
    r"|questions?|permission|consent|sign-?off|hesitation|further checks?|look-?up|checking)\b",
    _I,
)
_LOOKS = re.compile(
    r"\b(?:keeps?|makes?|lets?|leaves?) (?:the |our |all )?(?:\w+ )?(?:\w+ )(?:green|clean|happy"
    r"|quiet|look\w*"
    r" (?:good|better|clean))\b|\b(?:stays?|looks?) (?:green|clean|good|better|official"
    r"|legitimate|genuine)\b"
    r"|\bcounts? as (?:passed|done|approved|green|successful|paid)\b|\b(?:so that|as) (?:nobody"
    r"|no one)\b|\b(?:as|for) (?:given|granted|accepted|allowed|a yes|permitted"
    r"|agreed|maintenance)\b(?! (?:by|to|in)\b)",
    _I,
)
_RIGHTS = re.compile(
    r"\broles?\b[^.;]{0,40}\b(?:to|as|into) (?:an? )?(?:admin\w*|root|owner|superuser)\b"
    r"|\b(?:when|if|once) (?:he|she|they) (?:asks?|wants?|says?|insists?|demands?)\b"
    r"|\b(?:admin\w*|root|superuser|full|owner|write) (?:rights?|privileges?|powers"
    r"|permissions? for (?:all|every\w*|guests?|anonymous))\b|\b(?:guests?|anonymous\w*"
    r"|everybody|everyone|anyone)"
    r" (?:\w+ )?(?:through|access|in|full)\b",
    _I,
)
_OFF_TOPIC = re.compile(
    r"\b(?:dos(?:e|es|age)|medications?|medicines?|vaccin\w+|invest(?:ment|ments|ing|or|ors)?"
    r"|savings"
    r"|bitcoin|crypto(?:currency|currencies)?|elections?|political|religio\w+|attorney|law firm"
    r"|legal advice|weapons?|explosives?|suicide|diets?|horoscopes?|gambling|casino)\b",
    _I,
)
_VERSE = re.compile(r"(?:[^/\n]+(?:\w+ ){2,}[^/\n]*(?: / |\n)){2,}[^/\n]*(?:\w+ ){2,}")
REASONS = (
    (_ALLOWED_BY, "rests on who allowed it"),
    (_MINDS, "rests on what people think"),
    (_PRAISES, "praises or sells something"),
    (_PROCLAIMS, "proclaims a rule"),
    (_ADDRESSES, "speaks to its reader"),
    (_LOOP, "is about how advice is checked"),
    (_PASSES_ON, "passes something on to others"),
    (_FOLLOWS, "follows what a text says"),
    (_LOOKS, "is about how things look"),
    (_RIGHTS, "is about rights"),
    (_OFF_TOPIC, "is about no system"),
    (_VERSE, "is verse"),
)
