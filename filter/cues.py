"""Tell from a user's words whether they correct, confirm or neither.

Covered: short, plain remarks in English, German, French, Spanish, Italian, Portuguese,
Russian, Chinese and Japanese. A remark that does both ("works, but the total is
wrong") counts as a correction. Questions confirm nothing.
Not covered: irony, corrections without any of these words, other languages. A missed
cue costs a lesson; it never makes one.
"""

from __future__ import annotations

import re

_CUE_LIMIT = 600
"""Characters read at both ends of a remark: cues stand there, pastes in between."""
_BLANKS = re.compile(r"\s{2,}")
_HARMLESS_NO = re.compile(
    r"\b(?:no (?:problem|worries|need|thanks|more|issues?|errors?|objections?|doubt)"
    r"|nothing (?:is )?wrong|not (?:bad|only)|why not|kein problem|keine fehler|nicht schlecht"
    r"|pas de probl[èe]me|no hay problema|nessun problema|sem problemas?)\b|没错|不错|不客气",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"(?:^|(?<=[.!?\n。！？]))[^.!?\n。！？]{0,1300}[?？]")
_REJECTS = re.compile(
    r"""(?:^|(?<=[.!?\n]\s)|(?<=\n))\W{0,9}(?:(?:hm+|well|oh|ah|uh|um|sorry|but|äh*m?|ach|aber|eh|euh|ben|bueno|pero)\W{1,4})?
        (?:no|nope|nah|nein|nee|nö|non|não|нет)\b(?!-)
    |\b(?:wrong|incorrect|inaccurate|mistaken
        |(?:is|was|does|do|did|that)(?:n't|n’t|\ not)\ (?:right|correct|true|work\w*|match\w*
            |look\ right|what\ i|help\w*|valid|the\ case)
        |not\ (?:right|correct|true|what\ i|working)|still\ (?:fail\w*|broken|wrong|the\ same|not)
        |(?:is|are|it's)\ still
        |not\ what|didn't\ (?:work|help)|(?:no|same)\ (?:difference|effect|change|error)
        |i\ (?:don't\ think|doubt)|revert\ (?:it|that|this)|roll\ (?:it|that)\ back|undo\ it
        |broke\ (?:it|the|my)|nonsense|worse|still\ (?:get|see)\w*|can't\ be
        |cannot\ be|makes?\ no\ sense
        |(?:way\ )?too\ (?:high|low|many|few|large|small)
        |(?:far|way|miles|bit|little|still)\ off|off\ by|not\ even\ close|nowhere\ near
        |no\ (?:better|faster|quicker|improvement|luck)|(?:just\ )?as\ (?:slow|bad|broken)\ as
        |(?:hasn't|hasn’t|haven't|didn't|didn’t)\ (?:moved?|changed?|helped|improved?)
        |(?:crash\w*|down|gone|dead|fail\w*|broken)\ again|(?:take|took)\ it\ from\ here
        |(?<!nothing\ )(?:is|are)\ missing
        |leave\ it(?!\ (?:as|like|so|at|on|in))|forget\ it|never\s?mind|give\ up|gave\ up
        |is\ (?:gone|deprecated|obsolete|outdated))\b
    |\b(?:(?:schon\ )?wieder\ (?:weg|kaputt|abgestürzt|tot|offline|rot)|backup\ (?:wieder\ )?ein
        |bringt\ (?:\w+\ ){0,2}nichts|(?:weit|völlig|knapp)\ daneben|vergiss\ es
        |lass\ (?:es|gut\ sein)|genauso\ (?:langsam|schlecht|kaputt|falsch)
        |(?:merke?|spüre?|sehe?)\ (?:ich\ )?(?:nichts|kein\w*)\ (?:von|unterschied)
        |kein\w*\ (?:unterschied|besserung|effekt|wirkung)|hilft\ (?:\w+\ ){0,2}nicht)\b
    |\b(?:falsch|stimmt\ (?:so\ )?nicht|passt\ (?:so\ )?nicht|nicht\ (?:richtig|korrekt)
        |(?:funktioniert|geht|klappt)\ (?:so\ |immer\ noch\ )?nicht|kann\ nicht\ (?:sein|stimmen)
        |viel\ zu|quatsch|unsinn|bringt\ nichts|immer\ noch|gleicher\ fehler
        |zu\ (?:hoch|niedrig|viele|wenige?))\b
    |\b(?:faux|erron[ée]\w*|n'est\ pas|pas\ (?:bon|correct|juste|ça)
        |ne\ (?:marche|fonctionne)\ pas|toujours\ (?:pas|la\ même|le\ même)|trop)\b
    |\b(?:incorrect[oa]s?|equivocad[oa]|no\ (?:es|puede\ ser|funciona|coincide|est[áa]|cuadra)
        |sigue\ (?:fallando|igual)|demasiad[oa]s?)\b
    |\b(?:sbagliat[oaie]|errat[oaie]|non\ (?:è|va|funziona|corrisponde|torna|può)|ancora|troppo)\b
    |\b(?:errad[oa]s?|não\ (?:é|está|funciona|bate|pode)|ainda|demais)\b
    |неправильно|неверно|вс[её]\ ещ[её]|слишком|не\ (?:так|работает|то|совпадает|верно|может)
    |(?:^|[，。,.!！\n])\s*不(?:[，,。、!！ ]|要|能)|不对|错了|错误|不正确
    |(?<!是)不是|有误|不行|不能用|没用|不可能|还是(?:不|错|一样|报错)
    |太(?:多|少|高|低|慢)
    |まだ|変わら|すぎ|ありえな|違い|違う|違って|間違|正しくな|おかしい|合わな|合いませ|動かな|動きませ
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ADVISES = re.compile(
    r"""\b(?:actually|rather\ than|you\ (?:should|must|have\ to|need\ to)
        |(?:should|must)\ (?:be|use|have\ been)|(?:don't|do\ not|never)\ use|instead
        |undo\ (?:this|that)
        |sondern|eigentlich|stattdessen|du\ musst|sie\ müssen|muss\ man
        |(?:muss|müssen)\ (?:\w+\ ){1,6}werden
        |plutôt|il\ faut|au\ lieu|en\ vez\ de|en\ lugar\ de|debes|hay\ que|invece|bisogna
        |em\ vez\ de)\b
    |вместо|нужно|应该(?:是|用)|而不是|ではなく|じゃなく
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CONFIRMS = re.compile(
    r"""\b(?:works?|worked|working|solved|fixed|fixes|confirmed|correct|exactly|perfect\w*
        |match(?:es|ed)?|plausible|that(?:'s|\ is|\ was|\ did)\ (?:it|right|the\ one|what)|is\ right
        |(?:lines?|adds?)\ up|tall(?:y|ies)\ with|in\ line\ with|consistent\ with
        |all\ (?:good|green)|looks\ (?:good|right)|agrees?\ with|same\ as|as\ expected|success\w*
        |resolved|(?:that|it)\ did\ (?:it|the\ trick)|tests?\ pass\w*|compiles|green
        |went\ through|comes?\ (?:out|through)|(?:is|are)\ (?:up|back|in|there)
        |fine|great|awesome|excellent|spot\ on)\b
    |^\W{0,3}right(?=\W{0,3}$|[.,!;:]|\ (?:on|you\ are|indeed)\b)
    |\b(?:passt|stimmt|funktioniert|geht\ (?:jetzt|nun|wieder)|klappt|richtig|korrekt|genau|perfekt
        |gelöst|behoben|kommt\ (?:so\ )?hin|haut\ hin|super|prima|bestens|läuft|übereinstimm\w*
        |deckt\ sich|decken\ sich|entspricht)\b
    |\b(?:parfait\w*|exact\w*|ça\ (?:marche|fonctionne)|correspond|r[ée]solu
        |c'est\ (?:bon|ça|juste))\b
    |\b(?:correcto|coincide|perfecto|exacto|exactamente|funciona|resuelto|eso\ es|cuadra|genial)\b
    |\b(?:perfetto|esatto|corretto|funziona|corrisponde|risolto|torna)\b
    |\b(?:perfeito|exato|correto|certo|funcionou|resolvido|bate\ com|confere|deu\ certo)\b
    |работает|верно|правильно|точно|отлично|совпадает|заработало|сходится|решено
    |好了|可以了|对了|正确|没错|成功|一致|解决了|完美|吻合|没问题|对的|搞定|行了
    |一致し|合って|合いました|正しい|動きました|動いた|直りました
    |できました|完璧|その通り|解決|うまくいき|ぴったり
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BUT = re.compile(
    r"\b(?:but|however|except|although|still|aber|jedoch|mais|pero|ma|mas|porém|но)\b|但|不过|でも|しかし|けど",
    re.IGNORECASE,
)
_BY_NOW = re.compile(
    r"\bnow (?:it |that |this |everything )?(?:works|matches|is (?:right|correct|fine))\b"
    r"|\b(?:jetzt|nun) (?:passt|stimmt|geht|funktioniert)|\bahora (?:sí|funciona|coincide)"
    r"|\bmaintenant (?:ça|c'est bon)|现在(?:对|好|可以)",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"""\b(?:thanks|thank\ you|thx|ty|cheers|nice|cool|good|yes|yep|yup|yeah|ok(?:ay)?
        |danke|vielen\ dank|ja|jo|jup|jep|gut
        |merci|oui|gracias|s[íi]|bien|grazie|sì|bene|obrigad[oa]
        |sim|bom)\b
    |спасибо|\bда\b|хорошо|谢谢|感谢|好的
    |ありがと|助かり|はい|了解""",
    re.VERBOSE | re.IGNORECASE,
)


_WISHES = re.compile(
    r"\b(?:please|could|would|can you|i(?:'d| would) (?:like|prefer)|bitte|könn\w+|s'il vous|stp"
    r"|por favor|per favore|puoi|pourr\w+)\b|пожалуйста|请|ください",
    re.IGNORECASE,
)


_LONG_REMARK = 8
"""Words from which a last remark is no nod; an East Asian character is a third of one."""
_SETTLES = re.compile(
    r"\b(?:right|better|more like it|as it should|finally|bingo"
    r"|there (?:we|you) go|there it is|yeah|yup|got it"
    r"|makes sense|alles klar|verstanden|besser|endlich|d'accord|enfin|mieux|vale|listo"
    r"|mejor|va bene|meglio|melhor|klopt)\b|👍|🎉|✅|👌",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"""^\W*[^.!?\n]{1,40}[.!]\s+(?:but|now|aber|jetzt|mais|maintenant|pero|ahora|ma|mas)\s+
        (?:without|also|now|this\ time|then|just|for|per|with|as|in|ohne|auch|jetzt|noch|nur|für
          |pro|mit|als|dann|sans|aussi|pour|par|avec|sin|también|para|por|con|senza|anche|per|sem)\b
        (?!(?:\W{1,3}[^\W\d]+){0,12}?\W{1,3}(?:is|are|was|were|has|had|does|should|must|ought|not|it's
          |ist|sind|war|waren|sollte\w*|muss|müsste\w*|nicht|kein\w*|fehl\w+|est|sont|devrait|pas
          |es|son|debe\w*|no|è|sono|é|são)\b)[^.,;:!?\n\d]*(?:[.,;:!?\n]|$)""",
    re.VERBOSE | re.IGNORECASE,
)
"""A sentence of praise, then one that only wishes for more: `Good. But without drafts.`"""


_ORDERS_LOOP = re.compile(
    r"""\b(?:remember|memori[sz]e|save|store|keep|learn|record|add|note|adopt|accept|promote)\b
        [^.!?\n]{0,60}\b(?:lessons?|(?:your|its|long-term)\ memory|curated)\b
    |\b(?:remember|memori[sz]e|learn)\b[^.!?\n]{0,60}
        \b(?:future|all|every|other)\ (?:chats?|users?|answers?|conversations?)\b
    |\b(?:as|into)\ (?:an?\ )?(?:\w+\ ){0,2}lessons?\b|\bpre-?approved\b
    |\b(?:merk\w*|speicher\w*|lern\w*|übernimm\w*)\b[^.!?\n]{0,60}
        \b(?:lektion\w*|lehre|lernregel|für\ alle\ (?:chats|nutzer|benutzer))\b
    |\b(?:retiens|mémorise\w*|enregistre\w*|souviens)\b[^.!?\n]{0,60}
        \b(?:leçons?|ta\ mémoire|tous\ les\ (?:chats|utilisateurs))\b
    |\b(?:recuerda|memoriza|guarda|aprende)\b[^.!?\n]{0,60}
        \b(?:lecci[oó]n\w*|tu\ memoria|todos\ los\ (?:chats|usuarios))\b
    |(?:记住|保存|存为|学习).{0,20}(?:教训|经验|所有(?:用户|对话))
    |(?:教訓|レッスン)(?:として|に).{0,10}(?:覚え|保存|記憶)""",
    re.VERBOSE | re.IGNORECASE,
)


_COMPARES = re.compile(
    r"\b(?:match\w*|agrees?|same|equals?|fits?|passt zu\w*|deckt sich"
    r"|stimmt mit|übereinstimm\w*|correspond\w*"
    r"|coincide\w*|corrispond\w*|bate|confere|совпадает)\b|一致|吻合|合って",
    re.IGNORECASE,
)
_REMARK_WORD = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W_぀-ヿ㐀-鿿가-힯]+")
_PRAISE_WORDS = frozenset(
    {
        "a",
        "lot",
        "so",
        "much",
        "very",
        "many",
        "you",
        "it",
        "this",
        "that",
        "is",
        "all",
        "got",
        "wow",
    }
    | {"and", "for", "the", "help", "now", "sehr", "viel", "vielen", "dir", "ihnen", "das", "und"}
    | {
        "brilliant",
        "amazing",
        "awesome",
        "top",
        "toll",
        "muchas",
        "mucho",
        "beaucoup",
        "tudo",
        "mille",
    }
)


def orders_loop(remark: str) -> bool:
    """Say whether a user tells the loop what to keep, instead of saying what is so."""
    return _ORDERS_LOOP.search(_remark_ends(remark)) is not None


def corrects(remark: str) -> bool:
    """Say whether a user's remark rejects or corrects what was answered."""
    plain = _HARMLESS_NO.sub(" ", _remark_ends(remark))
    if _opens_agreeing(plain) or _BY_NOW.search(plain):
        return False
    if _REJECTS.search(plain) or _takes_back(plain):
        return True
    return _advises(plain) and not _CONFIRMS.search(plain)


def confirms(remark: str) -> bool:
    """Say whether a remark says that it worked; thanks alone do not."""
    stated = _QUESTION.sub(" ", _remark_ends(remark))
    agreed = not corrects(remark) and _CONFIRMS.search(stated) is not None
    return agreed and (_opens_agreeing(stated) or not _advises(stated))


def accepts(remark: str) -> bool:
    """Say whether a short remark ends the matter: a confirmation or plain thanks."""
    thanked = len(remark) <= 80 and _THANKS.search(remark) and not _BUT.search(remark)
    return not corrects(remark) and (bool(thanked) or confirms(remark))


def gives_up(remark: str) -> bool:
    """Say whether a last word after a correction is longer than a nod and no agreement."""
    ends = _remark_ends(remark)
    agrees = accepts(remark) or _SETTLES.search(ends) or _WISHES.search(ends)
    asks = remark.rstrip().endswith(("?", "？"))
    size = sum(1 if len(word) > 1 or word.isascii() else 0.3 for word in _REMARK_WORD.findall(ends))
    return not agrees and not asks and size >= _LONG_REMARK


def says_more(remark: str) -> bool:
    """Say whether a remark says more than praise and thanks: what it agrees with."""
    rest = _THANKS.sub(" ", _CONFIRMS.sub(" ", _remark_ends(remark)))
    words = [w for w in _REMARK_WORD.findall(rest.casefold()) if w not in _PRAISE_WORDS]
    return len(words) >= (1 if _COMPARES.search(remark) else 2)


def _advises(plain: str) -> bool:
    return _ADVISES.search(_QUESTION.sub(" ", plain)) is not None


def _takes_back(plain: str) -> bool:
    """Say whether a remark thanks or agrees and goes on with `but ...`; wishes are no objection."""
    stated = _QUESTION.sub(" ", plain).lstrip()
    polite = _THANKS.match(stated) or _CONFIRMS.match(stated)
    wishes = _WISHES.search(stated) or _GOES_ON.match(stated)
    return bool(polite and _BUT.search(stated) and not wishes)


def _opens_agreeing(plain: str) -> bool:
    """Say whether a remark starts with a yes and takes nothing of it back."""
    start = plain.lstrip()[:24]
    agreed = _CONFIRMS.match(start) or _THANKS.match(start)
    return agreed is not None and not _BUT.search(plain) and not _REJECTS.match(start)


def _remark_ends(remark: str) -> str:
    if len(remark) > 2 * _CUE_LIMIT:
        remark = f"{remark[:_CUE_LIMIT]}\n{remark[-_CUE_LIMIT:]}"
    return _BLANKS.sub(lambda run: "\n" if "\n" in run.group() else " ", remark)
