"""The words by which the built-in model understands how somebody wishes to be answered or contacted.

Words follow their tags, in brackets; a word with `field=value` names that value. `_` is a blank inside a phrase, and
`(a|b)` stands for either. Words
are written in lower case and simplified characters: `normal` brings a text there without changing length. A word not
listed is unknown, and an unknown word is taken for a topic: what is asked for is then about that topic.
"""

import itertools
import re
from collections.abc import Iterable, Iterator

_WORDS = """
# Values. Script and variety of Chinese are kept apart only where they are said.
[language=zh] 国文 中国语 中文 汉语 华语 中国话 普通话 国语 mandarin_chinese chinese mandarin
[language=zh-Hans] 简体 简体中文 简体字 简中 中文简体 simplified_characters simplified_chinese
[language=zh-Hant] 繁体 繁体中文 繁体字 正体中文 正体字 繁中 中文繁体 traditional_characters chinese_traditional
    traditional_chinese
[language=yue] 白话 粤语 广东话 广州话 cantonese
[language=en] 英文 英语 english eng
[language=ja] 日文 日语 日本语 japanese
[language=ko] 한국어로 한국어 韩文 韩语 朝鲜语 korean
[language=fr] 法文 法语 français french
[language=de] 德文 德语 deutsch german
[language=es] 西班牙文 西班牙语 西语 español castellano spanish
[language=it] 意大利文 意大利语 意语 italiano italian
[language=pt] 葡萄牙文 葡萄牙语 葡语 葡文 brazilian_portuguese português portuguese
[language=ru] русском русски 俄文 俄语 russian
[language=ar] 阿拉伯文 阿拉伯语 阿语 arabic
[language=th] ภาษาไทย 泰文 泰语 thai
[language=vi] 越南文 越南语 越语 越文 tiếng_việt vietnamese
[language=id] 印尼文 印尼语 印度尼西亚语 indonesian bahasa_indonesia
[language=ms] 马来文 马来语 malay bahasa_melayu
[response_style=concise] 重点 要点 精悍 利落 短平快 简简单单 简简短短 简洁 简短 简明 简要 精简 精炼 简练 扼要 简明扼要
    简洁明了 简单明了 短 短小 言简意赅 两三句 两三句话 三句话 两句话 一句话 一两句 一两句话 三言两语 几句话 三句 两句
    短答 简结 简节 简捷 shorten key_points main_points the_essentials pithy to-the-point snappy minimal condensed
    short brief briefly concise concisely succinct succinctly terse crisp shorter briefer simpler short_and_sweet
    short_and_simple one_sentence two_sentences a_few_sentences a_sentence_or_two one_or_two_sentences
    two_or_three_sentences
# `简单` says brevity only together with a word of degree.
[response_style=concise+LOOSE] 直接(点|一点|些|一些|啲) 干脆点 干脆一点 干脆些 简单 简略
[response_style=concise+ANSWER+MANNER] tldr (just|only)_the_facts 直说 直讲
    (a_couple_of|a_few|one_or_two|two_or_three|two|three)_(lines|sentences|words) 有事说事 有一说一
    (挑|捡|拣)(要紧|关键|重要|主要|重点)(的|)(说|讲|回)(|说|讲) just_(tell|give)_me_the_answer just_the_answer 抓重点
    捡重点 拣重点 只说重点 只讲重点 只说关键 讲关键 说关键 说要害 少说点 少讲点 少写点 说少点 越短越好 越简短越好
    越简洁越好 说重点 讲重点 说结论 讲结论 挑重点说 挑重点讲 说要点 讲要点 直奔主题 直入主题 直接说重点 直接讲重点
    直接给结论 给结论 长话短说 有话直说 直截了当 开门见山 一句话说完 少废话 废话少说 少说废话 讲少啲 讲短啲 less_text
    fewer_words less_wordy less_verbose less_detail one-liners quick_answers quick_replies simple_answers
    keep_it_quick to_the_point be_more_concise be_more_brief be_shorter be_more_direct straight_to_the_point
    get_to_the_point cut_to_the_chase keep_it_short keep_it_brief keep_it_concise keep_it_simple be_brief be_concise
    be_succinct keep_things_short keep_things_brief short_answers short_replies brief_answers brief_replies
    concise_answers concise_replies bottom_line_first no_fluff keep_them_short keep_them_brief keep_them_concise
    the_short_version short_version the_bottom_line bottom_line the_gist skip_the_fluff just_the_key_points
    only_the_key_points just_the_essentials
[response_style=concise+MANNER] 多(短|简短|简单|精简)
[response_style=detailed+MANNER] 多(细|详细|仔细|全面) 细节 一步一步 一步步 逐步 (每个|每一个|所有)步骤 每一步
    来龙去脉 step_by_step all_the_details full_explanations full_details full_explanation every_detail every_step
# Clear is detailed only where nothing else is said of length.
[response_style=detailed+MANNER+CLEAR] 讲清楚 说清楚 写清楚 交代清楚 解释清楚 讲得清楚 说得清楚 写得清楚 讲清 说清
[response_style=detailed+ANSWER+MANNER+CLEAR] 讲明白 说明白 写明白 解释明白 讲得明白 说得明白
[response_style=detailed] (many|all|all_the|more|lots_of|plenty_of|with|enough)_details with_detail
    complete_(explanation|explanations|answer|answers) 周全 透彻 详明 详详细细 仔仔细细 清清楚楚 详系 祥系 详尽些
    完完整整 祥细 详细 详尽 详实 仔细 细致 细 全面 具体 深入 完整 详细具体 lots_of_detail plenty_of_detail
    full_picture the_full_picture the_whole_story fully in_full at_length extensive detailed thorough thoroughly
    in_detail in_depth in-depth comprehensive elaborate in_full_detail in_more_detail in_great_detail more_detailed
    fuller longer
[response_style=detailed+ANSWER+MANNER] 掰开揉碎 掰开了 掰碎了 揉碎
    (|再)多(解释|说|讲|写|回)(两句|几句|一点|点|些|一些|啲) 讲到位 说到位 讲透 说透 越详细越好 越细越好 展开说 展开讲
    讲多啲 多讲点 多说点 多讲一点 多说一点 多讲些 多说些 说细点 讲细点 as_much_detail_as_possible explain_everything
    be_more_detailed be_more_thorough be_detailed be_thorough
# Said of the answer when refused: NOT LONG is concise, NOT SKIMPY is detailed.
[SKIMPY] one(-|_)(line|word|sentence)_(answers|replies|responses) hold_back hold_back_on_details 跳着说 跳着讲
    一笔带过 漏 漏咗 遗漏 省略 略过 跳过 跳步 漏掉 leave_anything_out skip_anything omit omit_anything skimp
    gloss_over skip skip_steps skip_details leave_out
[LONG] 一段 一大段 一屏 一大屏 一整页 铺垫 pleasantries small_talk 套话 空话 官话 官腔 打官腔 场面话 客气话 废话连篇
    小作文 作文 论文 套路话 流水账 太多字 那么多字 咁多字 那么多 这么多废话 兜圈 兜咁多圈 兜大圈 一大篇 一大堆字 啰嗦
    罗嗦 啰唆 长篇大论 长 冗长 废话 长气 赘述 拖沓 绕弯子 绕圈子 兜圈子 客套话 客套 一大堆 说那么多 讲那么多 说这么多
    讲这么多 说太多 讲太多 写那么多 写太多 讲咁多嘢 讲咁多 paragraphs long_paragraphs essay novel novels over-explain
    overexplain too_much_detail go_on_and_on beat_around_the_bush verbose wordy long lengthy ramble rambling
    long-winded essays walls_of_text long_answers long_replies waffle chatty
[contact_channel=email] 邮件 电邮 邮箱 电子邮件 电子邮箱 email e-mail emails e-mails
[contact_channel=email+SEND+ME] 邮件我 电邮我 email_me e-mail_me email我
[contact_channel=phone] 座机 固话 电话 phone telephone phone_call phone_calls by_call calls a_call
[contact_channel=phone+SEND] 打电话 打电话来 致电 来电 通电话 calling phoning call
[contact_channel=phone+SEND+ME] (打|打返|打番|打电话|打个电话)(俾|畀|给)我 打我手机 打我电话 打我的电话 打我的手机
    打给我 回电给我 电我 打畀我 打电话我 give_me_a_ring call_me phone_me ring_me give_me_a_call
[contact_channel=sms] a_text 短信 简讯 短讯 手机短信 sms text_message text_messages by_text via_text texts
[contact_channel=sms+SEND+ASK] (please|pls|just|only)_text
[contact_channel=sms+SEND] (send|发)(|_)(text|texts|a_text) 出sms 出短讯 出短信 传短信 传简讯 texting
[contact_channel=sms+SEND+ME] 短信我 text_me sms_me sms我
[contact_channel=wechat] 微信 wechat weixin
[contact_channel=wechat+SEND+ME] 微信我 wechat_me wechat我
[contact_channel=whatsapp] whatsapp whats_app
[contact_channel=whatsapp+SEND+ME] whatsapp_me whatsapp我
[contact_channel=in_app] 在线联系 网站消息 这个app 这个app里 这个app里的消息 站内信 站内消息 在线消息 在线客服
    在线聊天 应用内消息 应用内 网页聊天 聊天窗口 这个聊天窗口 这个窗口 站内讯息 站内通知 站内私信 站内
    the_app's_messages the_app's_chat in-app_chat app_chat app里的消息 app里的通知 app内 app里 app里面 app上 app消息
    in-app in_app in_the_app in-app_message in-app_messages in_app_messages app_messages live_chat this_chat
    in_this_chat
# A place is a channel only where something is said there: parcels go to places too.
[contact_channel=in_app+ANSWER] (在这|在这儿|在这里|在此)(聊|说|讲|回|留言|谈)(|我)
[contact_channel=in_app+HERE] (平台|网站|店铺|后台)(|上|里) 这里 这儿 这边 呢度 呢边 here in_here
# How long a wish holds. FUTURE asks by itself; HABIT may also be a complaint, so it needs a word of asking.
[FUTURE+USE] default_to 默认用
[FUTURE] from_today next_time_and_always (now|this_time)_and_always 尔后 嗣后 往后来 从这条消息开始 从这条消息起
    从这里开始 从现在 从即日起 即日起 从下次开始 从下次起 从下回起 从下回开始 由下次开始 由下次起 由下回开始 下次开始
    下次起 下回开始 下回起 由今次开始 由呢次开始 从此刻起 长远 앞으로 앞으로는 à_partir_de_maintenant 往后余生
    打今天起 自今日起 今日起 自此 从今 今次之后 第时 以后嘅日子 已后 以侯 巳后 下来 これから これからは 以后 今后 往后
    日后 从今以后 从今往后 从今天起 从今天开始 今天起 从现在起 从现在开始 现在起 现在开始 从此 从此以后 从这次开始
    打今儿起 之后都 将来 此后 一律 统一 默认 始终 永远 长期 由今日起 由而家开始 until_further_notice all_future
    any_future as_a_default from_this_message_on désormais dorénavant a_partir_de_ahora de_ahora_en_adelante ab_jetzt
    ab_sofort in_zukunft d'ora_in_poi a_partir_de_agora de_agora_em_diante as_a_general_rule in_general
    as_a_standing_rule for_the_future from_here_onwards from_now_onward hereafter onwards from_now from_now_on
    from_here_on from_here_on_out from_today_on from_this_point_on from_this_point_forward going_forward
    moving_forward in_future in_the_future henceforth by_default at_all_times permanently from_now_onwards as_a_rule
    future
[THEN] 后续 之后 后面 接下来
[HABIT] 一切 成日 回回 每一回 平常 平日 每次 每回 每一次 每条 次次 一直 总是 平时 凡是 任何时候 所有 all_the_time
    every_single_time on_every_occasion normally usually generally always every_time each_time whenever anytime every
    all
[WEAK] 都 全都 全部 通通 全程
[WHENEVER] (if|when|whenever)_(something|anything)('s|_is|_comes|_goes|_changes|_happens)(|_wrong|_up|_new)
    (if|when)_(there_is|there's|there_are|you_have)_(|any_|some_|a_)(news|update|updates|problem|problems|question|questions|anything|something)
    if_(anything|something)_(comes_up|happens|changes)
    有(|什么|啥|任何|新|重要|急|要紧|要紧的|要紧嘅|咩|乜|咩新|最新)(事|事情|事儿|消息|进展|进度|问题|情况|状况|通知|更新|变动|变化|动静|结果|动态|需要|嘢|update|updates|news)
    (什么|啥|咩|乜|乜嘢|一切|任何)(事|事情|事宜|消息|通知|更新|进展|情况|update)(|都)
    有(什么|啥|咩|乜)(需要|要)(联系|通知|联络|讲|说)(|我)(|的) 有啥事 有啥事儿 有啥 有啥消息 不管什么事 无论什么事
    什么事都 有任何事情 有任何消息 有任何进展 有咩 有重要事 有事 有消息 有进展 有情况 有通知 有更新 有什么事 有任何事
    有事情 有事儿 有咩事 有嘢 whenever
[ONCE] 这次 这回 本次 此次 今次 呢次 这一次 就这次 就这一次 仅此一次 下次 下回 这个问题 该问题 此问题 这道题 这题
    呢个问题 这条问题 这个订单 这单 这封 这份 这篇 这段 这句 这句话 那句 那段 一遍 重新 再说一遍 暂时 临时 这几天
    这两天 这周 本周 这个月 这段时间 期间 明天 后天 今晚 这件事 这个事 this_time this_once just_this_once once
    for_this for_now this_question this_one this_order this_issue this_email this_case this_week this_month
    this_message this_matter tonight tomorrow temporarily next_time again for_the_moment for_the_time_being until till
    while
[ONCE+SOFT] 一下 先 今天 今日 目前 上面 刚才 现在 而家 一次 today's today right_now currently first
# Who answers whom.
[ANSWER] 服务 接待 反馈 教 回消息 回信息 打招呼 답변해 답해 답변 대답해 讲解 返信 返事 回复 答复 回答 解答 作答 应答
    回信 回话 回应 答 回 复 讲 说 解释 说明 沟通 交流 聊 聊天 对话 交谈 谈 说话 讲话 讲嘢 倾 倾偈 表达 措辞 答案
    répondez répondre responda responder respóndame antworten antworte rispondere rispondi risponda hablar parler tell
    sentence sentences be_answered be_replied_to answer answers answering reply replies replying respond responds
    responding response responses explain explaining explanations speak speaking talk talking communicate
    communicating communication chat chatting write_back writing_back wording correspondence correspond conversations
    replys
[ANSWER+ME] explain_me explain_to_me 教我 服务我 回我话 复返我 答返我 回复我 回我 复我 答我 讲我听 讲俾我听 讲畀我听
    话我知 写给我 告诉我 répondez-moi respóndeme rispondimi responda-me write_me_back reply_me answer_me respond_me
    write_to_me talk_to_me speak_to_me tell_me
[ANSWER+GENERAL] 回复我的话 回我的话 回答我的时候 回答我时 答复我的时候 答复我时 复我嗰阵 答我嗰阵 复我嘅时候
    答我嘅时候 你的回复 你们的回复 您的回复 你的回答 你们的回答 您的回答 你的答复 你们的答复 回复我的时候 回复我时
    回我的时候 回我时 答我的时候 复我的时候 messages chats your_answers your_replies your_responses your_messages
    your_explanations replies answers responses
[WRITE] 写 打字 write writing
[SHARED] 沟通 交流 聊 聊天 对话 交谈 谈 倾 倾偈 communicate communicating communication chat chatting talk talking
[CONTACT] 联系 联络 通知 提醒 沟通 交流 聊 倾 contact contacted contacting reach reached reaching get_in_touch
    be_contacted 往来 来往 对接 correspondence correspond 联系我们 notify notified notifications inform informed
    get_hold_of communicate communication communicating contact_method contacting_me
[CONTACT+ME] 问我 同步我 同步给我 抄送我 转告我 戳我 滴我 喊我 呼我 叫我一声 招呼我 吱一声 吱我一声 言语一声 知会我
    敲我 联系我的话 联络我的话 找我的话 要联系我的话 搵我嘅话 找我 搵我 告诉我 告知我 话我知 联系我 联络我 通知我
    提醒我 keep_me_posted keep_me_updated update_me if_you_need_to_contact_me if_you_need_to_reach_me
    when_you_need_to_contact_me when_you_need_to_reach_me if_you_need_me if_you_want_to_reach_me contact_me reach_me
    notify_me message_me let_me_know reach_out_to_me get_back_to_me inform_me ping_me
[MESSAGE] 消息 讯息 信息 message
[MESSAGE+SEND] 留言 留个言 私信 发消息 发信息 发讯息
[SEND] 寄 传 寄个 传个 发 发送 发个 发条 打 打个 send sending
[ME+I] 我 我们 俺 咱
[ME] me us
[I] i we
[MY] my our mine
[ME+TO] 去我 寄去我 到我 发到我 跟我 和我 同我 与我 对我 给我 向我 俾我 畀我 to_me with_me to_us with_us
[YOU] 你 您 你们 您们 你哋 贵司 贵公司 客服 客服人员 小助手 助手 you customer_service customer_support support
[THIRD] 我妈 妈妈 老妈 我爸 爸爸 老爸 爸妈 父母 母亲 父亲 老婆 老公 丈夫 妻子 太太 我先生 孩子 小孩 儿子 女儿 奶奶
    爷爷 外婆 外公 姥姥 哥哥 姐姐 弟弟 妹妹 我哥 我姐 我弟 我妹 男友 女友 男朋友 女朋友 朋友 同事 老板 领导 上司 客户
    顾客 买家 卖家 用户 学生 老师 同学 邻居 室友 亲戚 家人 家里人 别人 有人 有些人 很多人 大家 人家 他们 她们 他 她 佢
    佢哋 对方 供应商 厂家 员工 团队 老人 老人家 长辈 秘书 助理 会计 mom mum mother dad father parents wife husband son
    daughter kid kids child children brother sister grandma grandmother grandpa grandfather girlfriend boyfriend
    friend friends colleague colleagues coworker coworkers co-worker boss manager client clients customer customers
    user users people everyone everybody someone somebody he she they him her his their them students student teacher
    staff employees employee roommate neighbor neighbour partner supplier agents team_members buyers aunt uncle
    secretary
# Force: what turns words about answers into a wish.
[ASK] better_(you|if_you|to) 成 就成 即成 就行啦 就好啦 주세요 부탁해요 부탁드립니다 お願いします 请问
    得㗎喇 就得㗎喇 得㗎啦 就得㗎啦 请 麻烦 拜托 烦请 劳烦 还请 敬请 恳请 希望 盼 最好 务必 记得 记住 请记住 一定要 要
    吧 就行 就好 即可 就可以 就可以了 就行了 就好了 好了 得啦 就得 就得喇 唔该 唔该晒 尽量 尽可能 麻烦你 建议
    okay_with_me s'il_vous_plaît por_favor bitte per_favore per_piacere please pls plz kindly remember remember_to
    make_sure_to make_sure should must ensure hope wish would_like like_you_to want_you_to need_you_to ask_you_to
    try_to is_fine is_enough is_best works_best ask request requesting let's
[WANT] 想 想要 需要 want need i'd_like
[LISTED] 我的习惯 我的偏好 我的要求 我的喜好 我的需求 my_preferences my_wishes my_requests
[PREFER] 更喜欢 比较喜欢 偏好 偏爱 倾向 倾向于 更愿意 宁愿 宁可 更倾向于 更倾向 更习惯 比较习惯 works_best
    works_best_for is_best_for_me is_best best_for_me prefer preferred preference
[PREFER] (is|are|it's|its|would_be)_(better|easier|easiest|simplest|preferable|more_convenient)(_for_me|)
    better_for_me easier_for_me suits_me works_better de_préférence preferably 最好是
[I+PREFER] 首选 钟意 中意 my_preference my_preferred i'd_rather would_rather would_prefer i'd_prefer
[LIKE] 喜欢 习惯 like appreciate
[CAN+ASKING] 能不能 可不可以 可否 能否 可唔可以 得唔得
[CAN] (it_is|it's|is_it)_possible 能 可以 能够 could can would mind
[ASKING] 吗 么 咩 未呀
[TAG] (行|成|中|好|可以)不 好吗 可以吗 行吗 好不好 行不行 好嘛 得吗 好唔好 okay ok alright
[WILL] 会 将会 将 会不会 will i'll we'll you'll
# Refusals, and what ends an earlier wish.
[NOT] 别 不要 不想 勿 莫 少 唔好 咪 不是 并非 没 不 唔 不懂 看不懂 听不懂 不会 而不是 而非 代替 取代 don't do_not dont
    not no never avoid without stop than less rather_than instead_of nor can't cannot
[NEEDNOT] 用不着 犯不着 不用 不必 无需 不需要 无须 没必要 唔使 唔需要 not_necessary no_need don't_need do_not_need
    don't_have_to needn't
[NEEDNOT+ENDED] 不再需要 不再要求 不用再 不必再 无需再 不需要再 唔使再 no_longer_necessary no_longer_need
    no_longer_want no_longer
[NOT+ENDED] 别再 不要再 勿再 唔好再 stop
[ENDED] 再 了 喇 啦 anymore any_more any_longer
[OVER] over
[UNABLE] 跟不上 麻麻 麻麻哋 一般般 很烂 太烂 很弱 太弱 生疏 半桶水 一塌糊涂 马马虎虎 还给老师了 忘光了 so_so
    just_so_so
    (is|isn't|is_not|not|are)_(so_|very_|too_|really_|that_|)(bad|poor|good|weak|limited|rusty|terrible|hard|difficult|great)
    hard_to_(read|follow|understand) confuses_me tires_me 不太好 不好 不行 不太行 不太会 很差 太差 不熟 听不懂 看不懂
    不懂 不会 听不见 听不到 接不到 接不了 收不到 看不到 不习惯 看不习惯 看不惯 看不来 听不惯 睇唔惯 听唔惯 唔惯
    看不下去 看不太懂 看不大懂 不太懂 不大懂 看不明白 看着费劲 看着累 费劲 吃力 很吃力 头疼 没人回 没人接 没人理
    冇人覆 冇人复 冇人听 占线 打不通 打唔通 不好使 不看 都不看 很少看 很少用 不怎么看 不怎么用 没法接 不方便 不想接
    不接 没装 睇唔明 听唔明 唔识 唔睇
[TENSE] kept used wrote gave
[TOO] 太 过于 太过 too
[SO] 那么 这么 咁 咁样 so that
[CANCEL] 唔需要(喇|啦|了) (不用|不必|无需|别)(打|发|用|写)了 (别|不|甭|不要|唔好)当真(|了|啦) 不算数了
    (not|no_longer)_(necessary|needed)(_anymore|_any_more|) no_need_anymore
    don't_(need|want)_(it|that)_(anymore|any_more) (取消|删|删咗|cancel)(|咗|晒)佢 唔要喇 唔要啦 撤 撤了 撤掉 停掉
    停了吧 拿掉 作罢吧 收回吧 恢复正常 恢复默认 恢复原样 不作数 不作数了 不用管了 就当没说 就当没说过 作罢 唔好理
    不用理了 唔使理啦 唔使理喇 取消咗佢 唔使理 不用理 不用理会 当我冇讲 算了 就算了 不用了 不需要了 不必了 就不用了
    唔使喇 唔使啦 免了 作废 不算 不算数 取消 撤回 收回 撤销 忘掉 忘了 忘记 当我没说 别管 不用管 无视 忽略 删掉 清掉
    去掉 唔算 back_to_normal go_back_to_normal take_that_back forget never_mind nevermind ignore cancel scrap
    take_back drop disregard undo remove withdraw delete
# Not to be remembered, and never said.
[UNSAVED]
    (不用|不要|别|不必|无需|不需要|甭|勿|唔使|唔好|唔需要|咪)(|再|去|帮我|给我|替我)(记|记住|记得|记下|记录|保存|存|储存)
    (don't|do_not|dont|never|needn't)_(remember|save|store|record|note|memorize|memorise|keep_in_mind|log)(|_that)
    (no_need_to|don't_have_to|don't_need_to)_(remember|save|store|record|note|memorize|keep_in_mind)(|_that)
[DENIED] (没|没有|从没|从来没|从来没有|从未|并没|并没有|冇|未曾|不曾)(|跟你|跟你们|和你们)(说|说过|讲|讲过|话过|提过)
    (没|没有|从没|从来没|从来没有|从未|并没有|冇)(要求|要求过|让你|让你们|叫你|叫你们) 谁(说|讲|话|让|叫|要)
    (never|didn't|did_not)(|_ever|_actually)_(say|said|ask|asked|tell|told|write|wrote|request|requested)
    who_(said|says|told|asked)
[DISOWNED] (不是|唔系|又不是|并不是)我(|自己|本人)(说|讲|话|写|打|发|提)(|的|过的|嘅) 不是本人 wasn't_me was_not_me
    not_me not_what_i_said
[EARLIER] (那个|这个|那条|这条|那项|的)(设置|设定|要求|偏好) before_i_(ask|asked|said|told) as_before like_before
    和以前一样 跟以前一样 像以前一样 (上回|上次|之前|先前)(|我)(让|叫|要)(|你|你们|你哋)
    (上回|上次|之前|先前|早前|以前)(|我)(说|讲|话)(|过|的) (我上次|我上回|我之前)说(|过|的)
    (之前|上次)(跟你说|要求)(|的) 我说的 我之前 之前的 刚才说的 前面说的 原来说的 早前讲 之前讲 之前讲的 偏好 偏好设置
    要求 i_gave_you gave_you what_i_said i_said earlier my_earlier previous my_request request preference preferences
    what_i_told_you asked i_asked what_i_asked
# After PAST, these tell what the customer asked for earlier.
[SAY+FILL] (跟|和|对|同)(你|您|你们|您们|你哋)(说|讲|提|说过|讲过|提过)
[SAY] 说 说过 讲 讲过 话 话过 提 提过 让 叫 请 要 要求 要求过 讲好 说好 约定 约好 嫌 嫌弃 设 设置 设定 设成 选 选的
    登记 交代 嘱咐 told said asked ask requested set chose
[PAST] 此前 先前 早前 头先 前几天 前阵子 上回 之前 以前 过去 上次 曾经 原来 was were did used_to last_time
[TOPIC=language] 语言 语种 language languages
[TOPIC=response_style] 回复风格 风格 回答风格 详略 篇幅 style length response_style reply_style
[TOPIC=contact_channel] 联系方式 联络方式 联系渠道 contact_channel contact_method contact_preference
[REVISE] 讲错 讲错咗 说错 说错了 写错了 打错了 搞错了 我改主意了 改主意了 我是说 现在改成 现在改为 现在换成 现在改用
    现在想改成 现在想用 而家改用 还是 改成 换成 改回 换回 不对 i_change_my_mind i_changed_my_mind change_of_mind
    on_second_thought correction i_mean actually wait instead make_it make_that scratch_that
# Conditions that only mean `please`.
[ASK] 如果可以的话 如果可以 如果方便的话 如果方便 如果能的话 可以的话 方便的话 得嘅话 如果得嘅话 if_possible
    if_you_can if_you_could if_that's_ok if_that's_okay if_that_is_ok if_it's_ok if_it's_possible if_that's_possible
    if_you_don't_mind
# What makes it something else than a wish for the future.
[IF] 如果 要是 假如 假设 假使 若 若是 万一 的话 除非 倘若 譬如 if unless in_case suppose supposing assuming imagine
[QUESTION] 为什么 为何 怎么 怎样 如何 什么 哪 哪个 哪种 谁 多少 是不是 有没有 有冇 是否 点解 支持 why how what which
    who does do_you did_you are_you is_it is_there have_you is_your are_your
[TRANSLATE] 翻译 译成 译为 翻成 改写 润色 朗读 translate translation translated rewrite proofread
[HELP] 帮我 替我 帮忙 help_me
[GIVE] 给我 来个 给个 give give_me provide
[REPORT] 昵称 网名 用户名 签名 你说过 你说以后 你们说以后 你们说过 客服说 佢话 听说 据说 写着 写道 说道 显示 原话 原文
    歌词 台词 据称 网上说 书上说 规定 nickname username you_said says said wrote told heard reads according_to article
    policy quote suggests recommends
[EARLIER] 我说过 我都说了 我说了 i_told_you i_already_told_you
# Things, also deliverables: a value beside them is theirs.
[THING] 耳机 音箱 音响 机器 语音 导航 提示音 遥控器 电视 设备 视频 文章 节目 直播 资讯 新闻 推送 送货 派送 派件 上门
    发票 收据 账单 合同 说明书 使用说明 手册 教程 文件 资料 报告 报价 报价单 清单 包装 设计 界面 款式 外观 颜色 尺寸
    参数 规格 型号 地址 标签 标题 名字 姓名 名称 商品 产品 订单 物流 快递 包裹 配送 付款 支付 登录 登陆 注册 验证码
    密码 账号 账户 课程 讲座 软件 系统 键盘 版 版本 字幕 歌 电影 书 页面 网站 号码 广告 优惠 折扣 新品 上新 促销
    优惠券 支票 截图 照片 图片 附件 内容介绍 评价 退款 退货 换货 保修 invoice invoices receipt receipts manual manuals
    guide instructions description descriptions design specs list summary report contract document documents file
    files attachment photo picture packaging label code codes link website page pages app movie song book keyboard
    name address order orders product products item items parcel package packages shipment refund catalogue catalog
    quote password account bill bills statement statements newsletter subtitles
[OF] 的 地 得 嘅
[DEGREE] 一丢丢 丢丢 丁点 一丁点 一哋 点 点儿 些 一点 一些 一点点 一点儿 啲 一啲
[MANNER] 方式 形式 语气 风格 口吻 语言风格 文字 way manner tone style
[REVISE+USE] 用返 讲返 转返 改返 用回 讲回 转回 说回
[USE] で 用 以 使用 采用 改用 改成 改为 换 换成 改 转 转成 转为 切换到 切换成 切换为 换回 改回 设为 通过 走 经 选 保持
    以便 优先 auf sticking_to switching_to using keeping_to sticking_with staying_in in use by via through on
    switch_to switch change_to change stick_to stick_with set_to keep_to stay keep
[LINK+OR] 或 或者 定 or
[LINK] 和 与 及 同 同埋 、 中英 and & / either both
[EITHER] 也行 也可以 也好 都行 都可以 都好 都得 随便 无所谓 均可 doesn't_matter any_of whatever
[ABOUT] about regarding concerning to_do_with related_to 关于 有关
[OBJECT] 把 将
[TOPIC=language] first_language native_language mother_tongue second_language 母语
[FILL] は your direct clear plain straightforward friendly honest urgent
    (小姐姐|小哥哥|小哥|大哥|大姐|小妹|小伙子|小姑娘|姑娘|闺女|美女|帅哥|老板娘|师傅|哥们|哥们儿|兄弟|姐妹|姐妹们|老铁|宝子|宝宝|家人们|亲们|亲亲)
    (我老人家|我们老人家|老人家我|您老|在下|本人|老朽|敝人) 嘿 嘿嘿 嘻嘻 呵呵 哎 唉 喂 拜托了 求求 求求了 求求你
    求求你们 真的 其实 反正呢 说实话 说真的 mate folks honestly basically maybe yes yeah yep sorry lol haha btw fyi
    tbh imo appreciated much ta regards best_regards sincerely really literally kinda sort_of anyway anyways somehow
    gracias merci danke guys_please 纯 纯粹 您老人家 有一(回|次) 稳当 稳妥 靠谱 保险 实在 好使 方便 (比较|更)快 省心
    放心 一声 guys 跟你们 和你们 (跟|和|对|同|向)(你|您|你们|您们|你哋) (别|不要|不|唔好|莫|勿)(|要)(超过|超) reading
    still mostly then easy number 讲完佢 说完佢 搞掂佢 事宜 东西 搞定 讲东西 说东西 说人话 讲人话 it's that's here's
    what's 别的 翻译软件 翻译器 翻译app 翻译工具 翻译机 用翻译 靠翻译 开翻译 google_translate translator
    translation_app translate_everything my_first the_first at_first first_time 啰 吖 㗎 噃 吓 呗 耶 欸 喎 㗎啦 嗰样
    字 字数 话 多给 多给点 什么的 先啱 啱 讲真 不介意 不怕 不嫌 干脆 顺 顺眼 顺手 舒服 清楚 省事 照 不错 越 嗰阵 嗰个
    控制 在 以内 之内 说完 讲完 写完 出来 步骤 收 で してください ください 着 咗 呢 啊 哦 呀 哈 嘛 喔 哟 诶 嗯 好的 就
    也 还 比较 稍微 稍 直接 谢谢 谢谢你 谢谢您 多谢 感谢 辛苦了 辛苦 你好 您好 哈喽 嗨 亲 早上好 下午好 晚上好 先生
    女士 内容 时候 时 的时候 去 来 嚟 喺 系 给 对 向 到 那 这样 这样吧 只 只用 只需 主要 另外 还有 对了 顺便 哈哈 是
    做 些许 为主 为准 有 同志 客户服务 太感谢了 明白 了解 没问题 不好意思 打扰了 我觉得 觉得 其他 其它 吉他 时间 每 即
    得到 收到 看 听 好 为 让 叫 作为 一般 通常 会员 里 上 里面 就算 反正 en make_them keep_them don't_mind
    i_don't_mind spell_out spelled_out spell more less a_bit a_little bit little because since the a an to it be is
    are am of as at and_also very rather quite just only simply possible as_possible thanks thank_you thank thx cheers
    hi hello hey there dear sir madam team good morning afternoon evening for with when me_in get receive receiving
    have having be_contacted being i'd i'm fine best better also too_please sure so_much out up back back_to do from
    but such everything things anything stuff nice great help conversation next further language_for each well oh
[URGE] 别 不要 勿 唔好 咪 别再 不要再 唔好再 don't do_not
[SEND+ME] write_me drop_me send_me
[contact_channel=whatsapp+SEND] 出whatsapp
[contact_channel=email+SEND] 寄信 出email 写邮件 写email emailing
[CONTACT+ME+WHENEVER] 联系我的话 联络我的话 找我的话 要联系我的话 搵我嘅话 联系我的时候 联系我时
    if_you_need_to_contact_me if_you_need_to_reach_me when_you_need_to_contact_me when_you_need_to_reach_me
    if_you_need_me if_you_want_to_reach_me whenever_you_need_me
[ASK+YOU+I+PREFER] i_would_(prefer|like)_(if|that)_you i'd_(prefer|like)_(if|that)_you i_(want|wish)_that_you
[ASK+YOU] i'd_appreciate_it_if_you i_would_appreciate_it_if_you it_would_be_great_if_you would_be_great_if_you
    it_would_be_nice_if_you would_be_nice_if_you i'd_prefer_if_you i_would_prefer_if_you i'd_prefer_it_if_you
    it_would_help_if_you i'd_love_it_if_you i'd_like_it_if_you
[ANSWER+TENSE] answered replied responded spoke talked communicated explained
"""
# Parallel: the same character at the same place.
_TRADITIONAL = (
    "後從請說講簡詳細複覆體廣東聯絡繫電郵發訊這個問題過嗎麼還給對時長點話語韓歡媽們會為現開記總結論囉氣聽寫換轉線內應機號碼國漢華粵單"
    "兩別無須沒謝煩貴勞務盡爺親鄰優選實標規約幫當樣見覺師員團愛願寧傾讀慣終認統賬課書顏態較買賣業產頁網訂購貨訴間頭經邊裡裏棄銷"
    "馬來鍾鐘於溝該與誰幾條習著係緊應東隨採顧產庫兒關"
    "臨亞僅價況剛圖塊夠導將爾彎錄懇戶擾據數顯暫鮮確稱簽紹繞羅緻觀視譯議許設證評詞談謂資賅贅達進遠遞輩辭釋鍵門隊陸順領風驗報裝並"
    "乾軟潤種儘準連妳誒練煉冊舉連類陣傳減"
)
_SIMPLIFIED = (
    "后从请说讲简详细复复体广东联络系电邮发讯这个问题过吗么还给对时长点话语韩欢妈们会为现开记总结论啰气听写换转线内应机号码国汉华粤单"
    "两别无须没谢烦贵劳务尽爷亲邻优选实标规约帮当样见觉师员团爱愿宁倾读惯终认统账课书颜态较买卖业产页网订购货诉间头经边里里弃销"
    "马来钟钟于沟该与谁几条习着系紧应东随采顾产库儿关"
    "临亚仅价况刚图块够导将尔弯录恳户扰据数显暂鲜确称签绍绕罗致观视译议许设证评词谈谓资赅赘达进远递辈辞释键门队陆顺领风验报装并"
    "干软润种尽准连你诶练炼册举连类阵传减"
)
_FULL_WIDTH = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F) if chr(code - 0xFEE0).isalnum()}
_NORMAL = _FULL_WIDTH | {ord("’"): "'"} | str.maketrans(_TRADITIONAL, _SIMPLIFIED)
_BLANKS = re.compile(r"\s+")


def listed(tag: str) -> list[str]:
    """Return all that is listed with `tag`, but single characters, which are parts of words, and places like `here`."""
    return [
        phrase for phrase, tags in _TAGS.items() if tag in tags and "HERE" not in tags and phrase not in _CHARACTERS
    ]


def tags() -> frozenset[str]:
    """Return all tags."""
    return frozenset().union(*_TAGS.values())


def naming(tag: str) -> str:
    """Return a pattern of what is listed with `tag`. What does not begin like any of that is passed over at once."""
    by_first: dict[str, list[str]] = {}
    for phrase in sorted(listed(tag), key=len, reverse=True):
        by_first.setdefault(phrase[0], []).append(_pattern(phrase))
    branches = (f"(?={re.escape(first)})(?:{'|'.join(patterns)})" for first, patterns in by_first.items())
    return f"(?=[{re.escape(''.join(by_first))}])(?:{'|'.join(branches)})"


def normal(text: str) -> str:
    """Return `text` in lower case, half-width and simplified characters, character for character."""
    return "".join(
        lower if len(lower := character.lower()) == 1 else character for character in text.translate(_NORMAL)
    )


def words(text: str) -> Iterator[tuple[int, int, frozenset[str]]]:
    """Return start, end and tags of each word of a `normal` text; an unknown word has no tags.

    At each place the longest known phrase counts; an unknown word is a Latin one, or one character. A long Latin word
    that is a known one with letters swapped, doubled or left single is taken for that.
    """
    position = 0
    while (unknown := _UNKNOWN.search(text, position)) is not None:
        start = unknown.start()
        known = _STARTING_WITH[text[start]].match(text, start) if text[start] in _STARTING_WITH else None
        position = (known or unknown).end()
        if known:
            yield start, position, _TAGS[_BLANKS.sub(" ", known.group())]
        else:
            yield start, position, _MISSPELT.get(_letters(unknown.group()), frozenset())


def _letters(word: str) -> str:
    """Return what slips of the keyboard leave of a word: how it begins and which letters it has."""
    return word[0] + "".join(sorted(set(word))) if len(word) >= _SHORTEST_MISSPELT else ""


def _table() -> dict[str, frozenset[str]]:
    table: dict[str, frozenset[str]] = {}
    given: frozenset[str] = frozenset()
    for line in _WORDS.splitlines():
        for word in [] if line.startswith("#") else line.split():
            if word.startswith("["):
                given = frozenset(word.strip("[]").split("+"))
                continue
            for phrase in map(normal, _spelled_out(word)):
                table[phrase] = table.get(phrase, frozenset()) | given
    return table


def _spelled_out(word: str) -> Iterator[str]:
    parts = [part.split("|") for part in re.split(r"[()]", word)]
    return ("".join(chosen).replace("_", " ") for chosen in itertools.product(*parts))


def _pattern(phrase: str) -> str:
    """Return the pattern of one phrase. Latin words end where they end; Chinese ones follow one another unmarked."""
    before = r"(?<![a-z0-9])" if phrase[0].isascii() else ""
    after = r"(?![a-z0-9])" if phrase[-1].isascii() else ""
    return before + r"\s{1,9}".join(re.escape(part) for part in phrase.split()) + after


def _longest_of(phrases: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(_pattern(phrase) for phrase in sorted(phrases, key=len, reverse=True)))


_TAGS = _table()
_CHARACTERS = frozenset(phrase for phrase in _TAGS if len(phrase) == 1)
_SHORTEST_MISSPELT = 6
_MISSPELT = {
    _letters(word): tags for word, tags in _TAGS.items() if word.isascii() and word.isalpha() and _letters(word)
}
_UNKNOWN = re.compile(r"[a-z0-9]+|[\w、/&]")
_STARTING_WITH = {
    first: _longest_of(phrase for phrase in _TAGS if phrase[0] == first) for first in {phrase[0] for phrase in _TAGS}
}
